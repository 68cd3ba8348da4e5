/**
 * PyTorch in a process of its own. It runs one part whenever it is asked, so that both sides take turns in one run and a
 * busy machine slows both down.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { packageRoot } from '../src/decode/bundled-models.js';
import type { Side } from './comparison.js';
import { printNote, recording } from './stopwatch.js';

export interface TorchProcess extends Side {
  /** Runs a part of the script, and returns what it measured. */
  run<Result extends { readonly ms: number }>(part: string): Promise<Result>;
  end(): void;
}

export const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';

/** Undefined, with a note, where PyTorch is not installed. */
export async function startTorch(script: string, settings: object): Promise<TorchProcess | undefined> {
  const child = spawn(python, [join(packageRoot, 'bench/torch', script)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => undefined); // the process ends early where PyTorch is missing
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async <Answer>(line: string): Promise<Answer | undefined> => {
    child.stdin.write(`${line}\n`);
    const answer = await lines.next();
    return answer.done === true ? undefined : (JSON.parse(answer.value) as Answer);
  };
  const started = await ask<{ version: string; gigaflops: number }>(JSON.stringify(settings));
  if (started === undefined) {
    printNote('PyTorch is not installed (Debian: apt-get install python3-torch libopenblas0-pthread).');
    return undefined;
  }
  recording.versions.PyTorch = started.version;
  return {
    name: `PyTorch ${started.version}`,
    gigaflops: started.gigaflops,
    async run<Result>(part: string): Promise<Result> {
      const answer = await ask<Result>(part);
      if (answer === undefined) throw new Error(`PyTorch ended while it ran ${part} of ${script}.`);
      return answer;
    },
    end() {
      child.stdin.end();
    },
  };
}
