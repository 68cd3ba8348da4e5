/** The command line in a process of its own: what it wrote, and the CPU time and memory that it took. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { watchProcessTree } from './process-tree.js';

export interface CommandRun {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  readonly cpuMs: number;
  readonly peakBytes: number;
}

/** With the start of Node and of the program, and with a process that encodes. Then it is killed, which shows as a signal. */
const maxCpuMs = 15_000;
/** A hang guard, for a command that waits without using the CPU. */
const hangGuardMs = 600_000;

export async function runCommand(main: string, argv: readonly string[], folder: string): Promise<CommandRun> {
  const environment: NodeJS.ProcessEnv = {
    ...process.env,
    MISTLETOE_CACHE: join(folder, 'cache'),
    HF_HUB_CACHE: join(folder, 'hub'),
    CI: 'true',
  };
  delete environment.FORCE_COLOR;
  const child = spawn(process.execPath, [main, ...argv], {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const tree = watchProcessTree(child.pid!, ({ cpuMs, kill }) => {
    if (cpuMs() > maxCpuMs) kill();
  });
  const hangGuard = setTimeout(tree.kill, hangGuardMs);
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    return { code, signal, out, err, cpuMs: tree.cpuMs(), peakBytes: tree.peakBytes() };
  } finally {
    clearTimeout(hangGuard);
    tree.stop();
  }
}

/** What is wrong with how a command met a malicious file; undefined where it did as it should. */
export function findCommandFault(
  { code, signal, out, err, cpuMs, peakBytes }: CommandRun,
  maxBytes: number,
): string | undefined {
  const text = out + err;
  if (signal !== null) return `it was ended by ${signal} after ${cpuMs} ms of CPU time`;
  if (code !== 2) return `it ended with ${code ?? 'no code'}: ${err.slice(-500)}`;
  if (peakBytes > maxBytes) return `it held ${Math.round(peakBytes / 2 ** 20)} MiB`;
  const errors = err.match(/^error: /gm)?.length ?? 0;
  const problems = /^\d+ problems?:$/m.test(out) ? 1 : 0;
  if (errors + problems !== 1) return `${errors} lines of error: ${text.slice(-500)}`;
  if (/^\s+at .+:\d+:\d+\)?$/m.test(text) || text.includes('bug in Mistletoe'))
    return `a stack: ${text.slice(-800)}`;
  const control = /(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/u.exec(text);
  if (control !== null) return `U+${control[0].charCodeAt(0).toString(16)} was written`;
  return text.length > 20_000 ? `it wrote ${text.length} characters` : undefined;
}
