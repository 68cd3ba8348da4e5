import type { Judge } from '../judge/judge.js';
import type { JudgeState, StateCallbacks } from './judge-state.js';
import { createLocalState } from './judge-state.js';

/** @param url redis://host:port, rediss:// or valkey://; undefined keeps the state in this process */
export async function openState(
  url: string | undefined,
  judge: Judge,
  callbacks: StateCallbacks,
): Promise<JudgeState> {
  if (url === undefined) return createLocalState(judge, callbacks);
  const { openRedisState } = await import('./redis-state.js');
  return openRedisState(url, judge, callbacks);
}
