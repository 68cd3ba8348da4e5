import { MistletoeError } from '../../core/errors.js';
import { bundledPrompts, findDrafter } from '../../decode/bundled-models.js';
import { settleDevice } from '../../decode/gpu-fit.js';
import { encodePrompt, openTarget } from '../../decode/target.js';
import { loadDrafter } from '../../draft/systems.js';
import { type Rehearsal, type RehearsalStage, rehearse } from '../../guard/rehearse/rehearsal.js';
import { tableText } from '../../report/table.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import { chooseDevice } from '../../runtime/device-choice.js';
import { loadPrompts } from '../../text/prompts/prompt-set.js';
import { cacheOf, tapsOf, templateOf } from '../common-flags.js';
import { exitCodes } from '../failure.js';
import { createModelFinder } from '../model-source.js';
import { type Terminal, createNotice } from '../terminal.js';
import type { RehearseFlags } from './rehearse-flags.js';

const reportEvery = 20;

export async function runRehearse(flags: RehearseFlags, terminal: Terminal): Promise<number> {
  const texts = (await loadPrompts(readable(flags.prompts))).map(({ text }) => text);
  const onNotice = createNotice(terminal);
  const findModel = createModelFinder(flags, terminal);
  const folder = await findModel(flags.target);
  const source = await findModel(findDrafter(flags.drafter));
  const device = await settleDevice(await chooseDevice(flags), [folder, source], onNotice);
  const runtime = await openRuntime(device, flags.threads);
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt(() => {
    abort.abort();
  });
  try {
    const loading = { onNotice, ...cacheOf(flags), ...tapsOf(flags) };
    const target = await openTarget(folder, { runtime, ...loading, ...templateOf(flags) });
    const { model, tokenizer, stopIds } = target;
    const drafter = await loadDrafter(source, { target: model, tokenizer, ...loading });
    const prompts: number[][] = [];
    for (const text of texts) prompts.push(await encodePrompt(target, text));
    const {
      draftLength,
      requests: normalRequests,
      stageRequests,
      maxNewTokens: newTokens,
      falseAlerts,
    } = flags;
    terminal.stderr.write(
      `Rehearses with ${drafter.name}, chain:${draftLength}: ${normalRequests} normal requests, then ${stageRequests} of each stage.\n`,
    );
    const rehearsal = await rehearse({
      ...{
        model,
        drafter,
        prompts,
        stopIds,
        draftLength,
        newTokens,
        normalRequests,
        stageRequests,
        falseAlerts,
      },
      signal: AbortSignal.any([abort.signal, terminal.closed]),
      onRequest: (done, total) => {
        if (done % reportEvery === 0) terminal.stderr.write(`${done} of ${total} requests\n`);
      },
    });
    if (rehearsal === undefined) return exitCodes.interrupted;
    terminal.stdout.write(formatRehearsal(rehearsal));
    const isNoticed = rehearsal.stages.some((stage) => countNoticed(stage) > 0);
    return isNoticed && rehearsal.areAnswersKept ? exitCodes.success : exitCodes.incomplete;
  } finally {
    stopListening();
    await runtime.dispose();
  }
}

function readable(prompts: string = bundledPrompts): string {
  if (/\.(jsonl|txt)$/.test(prompts)) return prompts;
  throw new MistletoeError('usage', `--prompts is ${prompts}; a .jsonl or .txt file was expected.`, {
    hint: 'Rename the file by its kind.',
  });
}

const columns = [
  ...['draft tokens', 'accepted length', 'draft + verify', 'tokens/s', 'against usual', 'against plain'],
  'collapsed or low',
];

/** What each stage cost, and what the guard said. */
export function formatRehearsal(rehearsal: Rehearsal): string {
  const { usual, plainTokensPerSecond: plain, breakEven, stages, areAnswersKept } = rehearsal;
  const speeds = (tokensPerSecond: number): string[] => [
    tokensPerSecond.toFixed(0),
    timesOf(tokensPerSecond, usual.tokensPerSecond),
    timesOf(tokensPerSecond, plain),
  ];
  const row = (name: string, stage: RehearsalStage): { cells: string[] } => {
    const { meanAcceptedLength, tokensPerSecond, stepMs, verdicts } = stage;
    const times = `${stepMs.draft.toFixed(1)} + ${stepMs.verify.toFixed(1)} ms`;
    const noticed = `${countNoticed(stage)} of ${verdicts.length}`;
    return { cells: [name, meanAcceptedLength.toFixed(2), times, ...speeds(tokensPerSecond), noticed] };
  };
  const plainMs = plain === 0 ? '-' : `${(1000 / plain).toFixed(1)} ms`;
  const rows = [
    row('as usual', usual),
    ...stages.map((stage) => row(`${(100 * stage.spoiledShare).toFixed(0)} % replaced`, stage)),
    { cells: ['none (plain)', '1.00', plainMs, ...speeds(plain), '-'] },
  ];
  const first = stages.find((stage) => countNoticed(stage) > 0);
  const verdict = first?.verdicts.find(isNoticed);
  const noticed =
    first === undefined || verdict === undefined
      ? 'The guard called no request collapsed or low.'
      : `The guard noticed it first with ${(100 * first.spoiledShare).toFixed(0)} % replaced (${verdict.name}): ${verdict.reason}`;
  const answers = areAnswersKept
    ? 'Every answer equals that of plain decoding, to the token.'
    : 'Some answers differ from plain decoding: rejected drafts must not change answers. Look into this first.';
  const cost =
    `A drafted step takes as long as ${breakEven.toFixed(2)} plain tokens here. ` +
    `Set breakEven: ${breakEven.toFixed(2)} in the guard's config to judge by it.`;
  return `${[...tableText({ columns, rows }), '', cost, noticed, answers].join('\n')}\n`;
}

const isNoticed = ({ name }: RehearsalStage['verdicts'][number]): boolean =>
  name === 'collapsed' || name === 'low';
const countNoticed = ({ verdicts }: RehearsalStage): number => verdicts.filter(isNoticed).length;

const timesOf = (speed: number, other: number): string =>
  other === 0 ? '-' : `${(speed / other).toFixed(2)}x`;
