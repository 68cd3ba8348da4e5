/**
 * A kind of file that strangers write. One attempt makes the file of a seed and has it read: it returns where the file
 * was accepted and what was read of it holds together, throws a MistletoeError where it was refused, and anything
 * else that it throws is a fault.
 */
import { MistletoeError } from '../../src/core/errors.js';

export type Attempt = (seed: number) => Promise<void> | void;

export interface FuzzKind {
  readonly name: string;
  /** Files that the full tier tries; slow kinds have fewer. */
  readonly boundedRuns: number;
  /** Prepares what the attempts share; `folder` is theirs alone, and empty. */
  open(folder: string): Promise<Attempt> | Attempt;
}

/** What a file under 1 MB may cost. */
export const maxCpuMs = 5000;
export const maxBytes = 500 * 1024 * 1024;

export interface Fault {
  readonly seed: number;
  readonly what: string;
}

export type Outcome = { readonly accepted: boolean; readonly cpuMs: number } | { readonly fault: string };

export async function tryFile(attempt: Attempt, seed: number): Promise<Outcome> {
  const start = process.cpuUsage();
  let accepted = true;
  try {
    await attempt(seed);
  } catch (failure) {
    const fault = faultOf(failure);
    if (fault !== undefined) return { fault };
    accepted = false;
  }
  const { user, system } = process.cpuUsage(start);
  const cpuMs = (user + system) / 1000;
  return cpuMs > maxCpuMs ? { fault: `it took ${Math.round(cpuMs)} ms of CPU time` } : { accepted, cpuMs };
}

const longestSentence = 2000;

/** What is wrong with a refusal: it has to be ours, and one that helps. */
function faultOf(failure: unknown): string | undefined {
  if (!(failure instanceof MistletoeError))
    return failure instanceof Error ? (failure.stack ?? failure.message) : `it threw ${String(failure)}`;
  const { message, hint } = failure;
  if (hint === undefined || hint === '') return `no hint: ${message}`;
  if (message.trim() === '' || message.length > longestSentence || hint.length > longestSentence)
    return `a sentence of ${message.length} characters with a hint of ${hint.length}: ${message.slice(0, 200)}`;
  // zod says what it received, JSON.parse quotes the text that it stumbles over, and templates bring words of their own.
  const own = message
    .replace('received undefined', '')
    .replace(/ not (?:valid )?JSON.*|Unexpected token.*|refused the conversation:.*/s, '');
  if (/\bundefined\b|\[object \w+\]/.test(own)) return `it says: ${message}`;
  return undefined;
}

/** For invariants: what was accepted must hold together. */
export function ensure(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
