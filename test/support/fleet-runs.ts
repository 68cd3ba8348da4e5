/** Audits with several workers in processes of their own, and ways to disturb them. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { tinySettings } from './tiny-audit.js';

/** Progress as --progress json prints it. */
export interface FleetEvent {
  readonly event: string;
  readonly message?: string;
  readonly worker?: string;
  readonly pid?: number;
  readonly drafter?: string;
  readonly prompt?: string;
  readonly arm?: string;
  readonly step?: number;
}

export interface FleetOutcome {
  /** Null if it was killed. */
  readonly code: number | null;
  readonly events: readonly FleetEvent[];
  /** Everything on stderr but progress. */
  readonly errors: string;
}

export interface FleetRun {
  readonly child: ChildProcess;
  readonly outcome: Promise<FleetOutcome>;
}

/** `words`: the script and its arguments. */
export function startFleetRun(
  words: readonly string[],
  onEvent: (event: FleetEvent, child: ChildProcess) => void = () => undefined,
  environment: NodeJS.ProcessEnv = {},
): FleetRun {
  const child = spawn(process.execPath, [...words, '--progress', 'json'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...environment },
  });
  const events: FleetEvent[] = [];
  let errors = '';
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (!line.startsWith('{')) {
      errors += `${line}\n`;
      return;
    }
    const event = JSON.parse(line) as FleetEvent;
    events.push(event);
    onEvent(event, child);
  });
  const outcome = once(child, 'close').then(([code]) => ({ code: code as number | null, events, errors }));
  return { child, outcome };
}

/** The unit that a worker works on: a search, or the controls of a prompt. */
export function unitOf({ drafter = '', prompt = '', arm = '' }: FleetEvent): string {
  const isSearch = /^(attack|undirected|unprojected|preservation-only|universal|transfer)/.test(arm);
  return `${drafter}/${prompt}/${isSearch ? arm : 'controls'}`;
}

/** How often to kill: few times, or as often as MISTLETOE_KILLS says (`50,5,5`: workers, Redis servers, submitters). */
export function readKills(few: { worker: number; redis: number; submitter: number }): typeof few {
  const given = process.env.MISTLETOE_KILLS?.split(',').map(Number);
  if (given === undefined) return { ...few };
  const [worker = 0, redis = 0, submitter = 0] = given;
  return { worker, redis, submitter };
}

const files = ['result.json', 'suffixes.jsonl'];
export const readResults = (folder: string): string[] =>
  files.map((name) => readFileSync(join(folder, name), 'utf8'));

/** Few candidates: the tests are about who searches, not about what is found. */
export function settingWords(): string[] {
  const settings = { ...tinySettings, candidates: 4, randomDraws: 1 };
  const given = Object.entries(settings).filter(([name]) => name !== 'chat');
  const named = given.flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    String(value),
  ]);
  return [...named, '--raw'];
}
