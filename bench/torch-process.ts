/**
 * PyTorch in a process of its own. It runs one part whenever it is asked, so that both sides take turns in one run and a
 * busy machine slows both down.
 */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { packageRoot } from '../src/core/package-files.js';
import type { Side } from './comparison.js';
import { printNote, recording } from './stopwatch.js';

export interface TorchProcess extends Side {
  readonly version: string;
  /** Runs a part of the script, and returns what it measured. */
  run<Result = { readonly ms: number; readonly loss?: number }>(part: string): Promise<Result>;
  end(): void;
}

/** Debian's package belongs to the system's Python, others to the first on the path. */
function findPython(): string | undefined {
  const commands = ['/usr/bin/python3', 'python3'];
  return commands.find((command) => spawnSync(command, ['-c', 'import torch']).status === 0);
}

/** Undefined, with a note, where PyTorch is not installed. */
export async function startTorch(script: string, settings: object): Promise<TorchProcess | undefined> {
  const python = findPython();
  if (python === undefined) {
    printNote('PyTorch is not installed (Debian: apt-get install python3-torch libopenblas0-pthread).');
    return undefined;
  }
  const child = spawn(python, [join(packageRoot, 'bench/torch', script)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async <Answer>(line: string): Promise<Answer> => {
    child.stdin.write(`${line}\n`);
    const answer = await lines.next();
    if (answer.done === true) throw new Error(`PyTorch ended early in ${script}.`);
    return JSON.parse(answer.value) as Answer;
  };
  const { version, gigaflops } = await ask<{ version: string; gigaflops: number }>(JSON.stringify(settings));
  recording.versions.PyTorch = version;
  return { name: `PyTorch ${version}`, version, gigaflops, run: ask, end: () => child.stdin.end() };
}
