/** Our own server speaks like vLLM, and says who it is. Drafts may be trees there. */
import type { Reading } from './reading.js';
import { asObject } from './reading.js';
import { readTold } from './vllm.js';

export function readMistletoe(body: unknown): Reading | undefined {
  const answer = asObject(body);
  if (answer === undefined || !isMistletoe(answer)) return undefined;
  const told = asObject(asObject(answer.metrics)?.speculative_decoding);
  return told === undefined ? undefined : readTold(told);
}

export function isMistletoe(answer: Readonly<Record<string, unknown>>): boolean {
  const { system_fingerprint: fingerprint } = answer;
  const isSigned = typeof fingerprint === 'string' && /^mistletoe\b/.test(fingerprint);
  return isSigned || asObject(answer.metrics)?.engine === 'mistletoe';
}
