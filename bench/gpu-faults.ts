/**
 * What becomes of a GPU in long use and in trouble, with the bundled models:
 *
 *   flat    memory of device and host before and after 10,000 steps of decoding and 500 steps of an audit
 *   two     two processes on one GPU at once give the answers that one gives alone
 *   kill    an audit killed by SIGKILL gives the GPU's memory back, and ends as an undisturbed one when resumed
 *   room    a GPU without room is refused with what to lower, and can be used once there is room
 *
 * Run: npm run bench:gpu-faults [-- PARTS [tiny]]      on the CPU only with `tiny`
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createRequest } from '../src/audit/create-request.js';
import { resumeAudit, startAudit } from '../src/audit/run-audit.js';
import { MistletoeError } from '../src/core/errors.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { findDrafter } from '../src/decode/find-drafter.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { openTarget, requestFor } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { OutOfMemoryError } from '../src/runtime/device-failures.js';
import type { Runtime } from '../src/runtime/program.js';
import { inlinePrompt } from '../src/text/prompts/prompt-set.js';
import { watchMemory } from './gpu-memory-watch.js';
import { openBenchDevice, openRandomTarget } from './gpu-models.js';

const [, , parts = 'flat,two,kill,room', size = 'full', ...rest] = process.argv;
const isTiny = size === 'tiny';
const prompts = ['Why is the sky blue?', 'Write a function that adds two numbers.', 'Tell me a story.'];
const work = { flat, two, kill, room, answers: printAnswers, audit: runAudit } as const;

let failures = 0;
for (const part of parts.split(',') as (keyof typeof work)[]) {
  try {
    await work[part]();
  } catch (cause) {
    check(part, false, cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
  }
}
process.exitCode = failures === 0 ? 0 : 1;

function check(name: string, isRight: boolean, about = ''): void {
  failures += isRight ? 0 : 1;
  console.log(`${isRight ? 'OK' : 'WRONG'}: ${name}${about === '' ? '' : `, ${about}`}`);
}

async function flat(): Promise<void> {
  const [steps, auditSteps] = isTiny ? [60, 4] : [10_000, 500];
  const opened = openBenchDevice('tiny');
  try {
    for (const { name, isFlat, about } of await watchMemory(opened, { steps, auditSteps, prompts }))
      check(name, isFlat || isTiny, about);
  } finally {
    await opened.runtime.dispose();
  }
}

/** Answers with and without drafts, as token ids. */
async function decodeAll(runtime: Runtime): Promise<number[][]> {
  const target = await openTarget(bundledTarget, { runtime });
  const drafter = await loadDrafter(findDrafter('eagle3'), {
    ...{ target: target.model, tokenizer: target.tokenizer },
  });
  const answers: number[][] = [];
  for (const prompt of prompts) {
    const request = await requestFor(target, prompt, { maxNewTokens: isTiny ? 12 : 128 });
    const policy = always({ kind: 'chain', length: 3 });
    answers.push([...(await decodeSpeculative(target.model, drafter, { ...request, policy })).tokenIds]);
  }
  return answers;
}

async function printAnswers(): Promise<void> {
  const { runtime } = openBenchDevice('tiny');
  const rounds: string[] = [];
  for (let round = 0; round < (isTiny ? 1 : 10); round++)
    rounds.push(JSON.stringify(await decodeAll(runtime)));
  await runtime.dispose();
  console.log(new Set(rounds).size === 1 ? rounds[0] : 'Rounds differ.');
}

async function two(): Promise<void> {
  const { runtime } = openBenchDevice('tiny');
  const alone = JSON.stringify(await decodeAll(runtime));
  await runtime.dispose();
  const both = await Promise.all([runSelf('answers'), runSelf('answers')]);
  for (const { output, code } of both)
    check('answers of one of two processes', code === 0 && output.trim() === alone, output.slice(0, 200));
}

function auditFolder(): string {
  return join(rest[0]!, rest[1]!);
}

async function runAudit(): Promise<void> {
  const resumed = rest[2] === 'resume';
  const cacheFolder = join(rest[0]!, 'cache');
  const events = {
    onStep: () => {
      console.log('step');
    },
  };
  if (resumed) await resumeAudit(auditFolder(), { cacheFolder, events });
  else {
    const request = await createRequest({
      ...{ prompts: prompts.slice(0, 1).map((text) => inlinePrompt(text)), preset: 'quick', cacheFolder },
      device: isTiny ? 'cpu' : 'cuda',
      settings: { steps: isTiny ? 3 : 24, candidates: isTiny ? 8 : 64, controlSearches: false },
    });
    await startAudit(auditFolder(), request, { cacheFolder, events });
  }
}

async function kill(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-faults-'));
  try {
    const readAll = (run: string): string =>
      ['units.jsonl', 'steps.jsonl'].map((name) => readFileSync(join(folder, run, name), 'utf8')).join('\n');
    const whole = await runSelf('audit', [folder, 'whole']);
    check('an audit', whole.code === 0, whole.code === 0 ? '' : whole.output.slice(-500));
    const before = freeBytes();
    const killed = await runSelf('audit', [folder, 'killed'], isTiny ? 2 : 15);
    check('the audit was killed', killed.code === undefined);
    let missing = NaN;
    for (let tries = 0; tries < 50; tries++) {
      missing = before - freeBytes();
      if (missing < 2 ** 24) break;
      await setTimeout(200);
    }
    check('its memory came back', !(missing >= 2 ** 24), `${missing} bytes are missing`);
    const resumed = await runSelf('audit', [folder, 'killed', 'resume']);
    check('it was resumed', resumed.code === 0, resumed.code === 0 ? '' : resumed.output.slice(-500));
    check('it ended as the other', readAll('killed') === readAll('whole'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What is free, as this process sees it; nothing is known of a machine without GPU. */
function freeBytes(): number {
  const { device } = openBenchDevice('tiny');
  const free = device?.freeBytes() ?? NaN;
  device?.dispose();
  return free;
}

/** A part in a process of its own, killed at its `killAt`th line. */
async function runSelf(part: string, words: readonly string[] = [], killAt = Infinity) {
  const script = fileURLToPath(import.meta.url);
  const child = spawn(process.execPath, [script, part, size, ...words]);
  let output = '';
  const listen = (text: string): void => {
    output += text;
    if (output.split('\n').length > killAt) child.kill('SIGKILL');
  };
  child.stdout.setEncoding('utf8').on('data', listen);
  child.stderr.setEncoding('utf8').on('data', listen);
  const [code] = (await once(child, 'close')) as [number | null];
  return { output, code: code ?? undefined };
}

async function room(): Promise<void> {
  const { runtime, device } = openBenchDevice('tiny');
  if (device === undefined) {
    console.log('There is no GPU to fill.');
    return;
  }
  const held: bigint[] = [];
  for (let piece = 2 ** 36; piece >= 2 ** 12; piece /= 2) {
    while (device.freeBytes() > piece) {
      try {
        held.push(device.allocate(piece));
      } catch {
        break;
      }
    }
  }
  console.log(`${device.freeBytes()} bytes are left of ${device.totalBytes}`);
  // Pages that are allocated already may have room for a tiny model.
  const { model } = openRandomTarget(isTiny ? 'tiny' : '7B', runtime);
  const pass = async (): Promise<unknown> =>
    model.forward({ tokens: Int32Array.of(1, 2, 3), cache: model.createCache(), want: ['argmax'] });
  try {
    await pass();
    check('a full GPU is refused', false);
  } catch (cause) {
    const hint = cause instanceof MistletoeError ? cause.hint : undefined;
    check('a full GPU is refused', cause instanceof OutOfMemoryError, `${String(cause)} ${hint}`);
    check('and what to lower is named', /lower|less/i.test(hint ?? ''));
  }
  for (const address of held) device.free(address);
  await pass();
  check('and is used once there is room', true);
  await runtime.dispose();
}
