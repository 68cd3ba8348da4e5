export { drawFrom } from '../core/random.js';
export * from '../core/sampling.js';
