import { basename } from 'node:path';
import { countText, formatBytes } from '../core/number-text.js';
import { text } from '../core/settings.js';
import { bundledDrafterFolder, bundledDrafters } from '../core/package-files.js';
import { countFittingTokens, estimateGpuMemory, expectedTokens, passBytes } from '../decode/gpu-fit.js';
import type { Inspection, MemoryFacts, TokenizerFacts, WeightFacts } from '../draft/inspection.js';
import { inspectCheckpoint } from '../draft/inspection.js';
import type { DrafterFacts } from '../draft/draft-system.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { countSparseLayers, type Experts } from '../model/experts.js';
import type { ComputeType, DeviceWish, GpuHost } from '../runtime/device-choice.js';
import { chooseDevice, keepIfRoom, nameDevice, recordDevice, thisMachine } from '../runtime/device-choice.js';
import { type Invocation, defineCommand } from './command.js';
import { deviceFlags, downloadFlag, formatFlag, tapsFlag } from './common-flags.js';
import { closeSentence, exitCodes } from './failure.js';
import { type FlagsOf, flag } from './flags.js';
import { type Fact, formatFacts, printResult } from './long-runs.js';
import { createModelFinder } from './model-source.js';
import { asOneLine, type Colors } from './terminal.js';

const flags = {
  ...formatFlag,
  download: { ...downloadFlag.download, rare: false },
  ...tapsFlag,
  target: flag('check that it fits this target; draft models: compare vocabularies', text, 'model'),
  ...deviceFlags,
};
type InspectFlags = FlagsOf<typeof flags>;

export const inspect = defineCommand({
  name: 'inspect',
  description:
    'Shows what a folder or GGUF file contains (a model, or a drafter and its system), its size, the memory it needs, and every problem with its remedy. It reads headers only, so it is fast on large models too.',
  arguments: [
    [
      '<model>',
      'folder or GGUF file of a model or a drafter, a bundled drafter, or ORG/NAME[@REVISION] on the Hugging Face hub',
    ],
  ],
  flags,
  examples: [
    ['mistletoe inspect ./my-model', ''],
    ['mistletoe inspect eagle3', 'a bundled drafter'],
    ['mistletoe inspect ./my-drafter --format json', ''],
    ['mistletoe inspect yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --download', ''],
  ],
  notes: 'Exit codes: 0 no problems, 2 problems found.',
  run: runInspect,
});

async function runInspect(flags: InspectFlags, { terminal, args }: Invocation): Promise<number> {
  await chooseDevice(flags); // fails before anything is downloaded
  const findModel = createModelFinder(flags, terminal);
  const target = flags.target === undefined ? undefined : await findModel(flags.target);
  const [given = ''] = args;
  // A folder of the same name is written ./eagle3.
  const bundled = bundledDrafters.find((name) => name === given);
  const folder = await findModel(bundled === undefined ? given : bundledDrafterFolder(bundled));
  const inspection = await inspectCheckpoint(folder, { taps: flags.taps, target });
  // Drafters run where their targets do.
  const { model, memory } = inspection;
  const fit = model !== undefined && memory !== undefined ? await describeFit(model, flags) : undefined;
  printResult(flags.format, terminal, {
    json: () => ({ ...inspection, runsOn: fit }),
    text: (colors) => formatInspection(inspection, fit, colors),
  });
  return inspection.problems.length === 0 ? exitCodes.success : exitCodes.badInput;
}

const shownProblems = 12;

function formatInspection(inspection: Inspection, fit: DeviceFit | undefined, colors: Colors): string {
  const { model } = inspection;
  const device = fit === undefined || model === undefined ? [] : fitLines(fit, model);
  const lines = formatFacts(inspectionLines(inspection, device), colors);
  const notes = inspection.notes.map((note) => `${colors.yellow('note:')} ${asOneLine(note)}`);
  return `${[...lines, ...notes, '', ...formatProblems(inspection, colors)].join('\n')}\n`;
}

function formatProblems({ problems }: Inspection, colors: Colors): readonly string[] {
  if (problems.length === 0) return [colors.green('No problems found.')];
  const shown = problems
    .slice(0, shownProblems)
    .flatMap(({ problem, remedy }, index) => [
      `${colors.red(`${index + 1}.`)} ${closeSentence(problem)}`,
      ...(remedy === '' ? [] : [`   ${colors.cyan('remedy:')} ${closeSentence(remedy)}`]),
    ]);
  const hidden = problems.length - shownProblems;
  return [
    colors.red(problems.length === 1 ? '1 problem:' : `${problems.length} problems:`),
    ...shown,
    ...(hidden > 0 ? [`   ... and ${hidden} more; --format json lists them all.`] : []),
  ];
}

const lineIf = <T>(label: string, value: T | undefined, show: (value: T) => string): readonly Fact[] =>
  value === undefined ? [] : [[label, show(value)]];

const noneIf = (label: string, isExpected: boolean): readonly Fact[] => (isExpected ? [[label, 'none']] : []);

/** `device`: where it would run, shown after the memory it needs. */
export function inspectionLines(inspection: Inspection, device: readonly Fact[] = []): readonly Fact[] {
  const { folder, kind, layout, model, drafter, weights, memory, tokenizer, chatTemplate } = inspection;
  const isTarget = kind === 'decoder';
  return [
    ['folder', folder],
    [
      'kind',
      isTarget
        ? `${layout} (a target, or a drafter for speculative sampling)`
        : `${drafter === undefined ? kind : 'drafter'}: ${layout}`,
    ],
    ...(model === undefined ? [] : modelLines(model)),
    ...(drafter === undefined ? [] : drafterLines(drafter)),
    ...(weights === undefined ? [] : weightLines(weights)),
    ...lineIf('memory needed', memory, memoryText),
    ...device,
    ...(tokenizer === undefined ? noneIf('tokenizer', isTarget) : tokenizerLines(tokenizer)),
    ...noneIf('chat template', isTarget && tokenizer !== undefined && chatTemplate === undefined),
    ...lineIf('chat template', chatTemplate, ({ origin }) => basename(origin)),
    ...lineIf('  renders Hello! as', chatTemplate, ({ sample }) => quoteSample(sample)),
  ];
}

const shownCharacters = 400;

/** A template can write megabytes around one word. */
function quoteSample(sample: string): string {
  const shown = JSON.stringify(sample.slice(0, shownCharacters));
  return sample.length > shownCharacters
    ? `${shown} and ${formatCount(sample.length - shownCharacters)} more characters`
    : shown;
}

function modelLines(model: ModelConfiguration): readonly Fact[] {
  const { headCount, keyValueHeadCount, headSize, rotaryScaling, slidingWindow } = model;
  const scaling =
    rotaryScaling.kind === 'none' ? '' : `, ${rotaryScaling.kind} scaling by ${rotaryScaling.factor}`;
  const seen =
    slidingWindow === undefined ? '' : `, of which a token sees the last ${formatCount(slidingWindow)}`;
  const traits = [
    ...(model.tiedEmbeddings ? ['embeddings tied to the output'] : []),
    ...(model.queryKeyValueBias ? ['attention bias'] : []),
    ...(model.queryKeyNorm ? ['query and key norms'] : []),
  ];
  return [
    ['family', [model.family, ...traits].join(', ')],
    ['layers', formatCount(model.layerCount)],
    ['hidden size', `${formatCount(model.hiddenSize)} (MLP ${formatCount(model.intermediateSize)})`],
    ...lineIf('experts', model.experts, (experts) => describeExperts(model, experts)),
    ['heads', `${headCount} of ${headSize}, ${keyValueHeadCount} for keys and values`],
    ['vocabulary', `${formatCount(model.vocabularySize)} tokens`],
    ['context', `${formatCount(model.contextLength)} tokens${seen}`],
    ['rotary', `base ${formatCount(model.rotaryBase)} (${model.rotaryOrigin})${scaling}`],
  ];
}

function describeExperts(model: ModelConfiguration, experts: Experts): string {
  const { count, perToken, intermediateSize } = experts;
  const layers = `${countSparseLayers(model)} of ${model.layerCount} layers`;
  return `${perToken} of ${count} per token, each MLP ${formatCount(intermediateSize)}, in ${layers}`;
}

function drafterLines(facts: DrafterFacts): readonly Fact[] {
  const { hiddenSize, draftVocabularySize, rotary, traits = [], expects } = facts;
  const target = [
    ...(expects.hiddenSize === undefined ? [] : [`hidden size ${formatCount(expects.hiddenSize)}`]),
    ...(expects.vocabularySize === undefined ? [] : [`vocabulary ${formatCount(expects.vocabularySize)}`]),
    ...(expects.taps === undefined ? [] : [`${expects.taps} of its layers tapped`]),
  ];
  return [
    ['drafts', describeDrafts(facts)],
    ...lineIf('hidden size', hiddenSize, formatCount),
    ...lineIf('draft vocabulary', draftVocabularySize, (size) => `${formatCount(size)} tokens`),
    ...lineIf('rotary', rotary, ({ base, origin }) => `base ${formatCount(base)} (${origin})`),
    ...(traits.length === 0 ? [] : [['has', traits.join(', ')] as const]),
    ['expects a target', target.length === 0 ? 'not known from the tensors' : `with ${target.join(', ')}`],
    ...lineIf('taps', expects.tapRule, String),
  ];
}

function describeDrafts({ heads, maskToken }: DrafterFacts): string {
  const levels = heads === undefined ? 'to any depth' : `${heads} tokens ahead`;
  if (maskToken !== undefined) return `${levels}, a chain in one pass behind masks (token ${maskToken})`;
  return heads === undefined ? `${levels}, from its own output` : `${levels} (one per head)`;
}

function weightLines(weights: WeightFacts): readonly Fact[] {
  const { files, sizeBytes, tensorCount, parameterCount } = weights;
  const types = Object.entries(weights.dtypes).map(([dtype, count]) => `${dtype} ${formatShort(count)}`);
  return [
    [
      'parameters',
      `${formatShort(parameterCount)} in ${formatCount(tensorCount)} tensors (${types.join(', ')})`,
    ],
    ['on disk', `${formatBytes(sizeBytes)} in ${countText(files.length, 'file')}`],
  ];
}

const memoryText = ({ weightBytes, cacheBytesPerThousandTokens }: MemoryFacts): string =>
  `${formatBytes(weightBytes)} of float32 weights (mapped), ` +
  `${formatBytes(cacheBytesPerThousandTokens)} of KV cache per 1000 tokens`;

function tokenizerLines({ kind, vocabularySize, specialTokens }: TokenizerFacts): readonly Fact[] {
  const hidden = specialTokens.length - 6;
  const shown = `${specialTokens.slice(0, 6).join(' ')}${hidden > 0 ? ` and ${hidden} more` : ''}`;
  return [
    ['tokenizer', `${kind}, ${formatCount(vocabularySize)} tokens`],
    ['  special tokens', specialTokens.length === 0 ? 'none' : shown],
  ];
}

function formatCount(value: number): string {
  return value.toLocaleString('en-US');
}

/** 12_345_678 -> 12.3 M */
function formatShort(value: number): string {
  const scale = [
    { size: 1e9, unit: ' B' },
    { size: 1e6, unit: ' M' },
    { size: 1e3, unit: ' k' },
  ].find(({ size }) => value >= size);
  return scale === undefined ? String(value) : `${(value / scale.size).toPrecision(3)}${scale.unit}`;
}

type DeviceFit = Awaited<ReturnType<typeof describeFit>>;

/** Where a model would run, and whether it fits there. */
export async function describeFit(model: ModelConfiguration, wish: DeviceWish, host: GpuHost = thisMachine) {
  const { contextLength } = model;
  const countBytes = (dtype: ComputeType): Promise<number> => {
    const { weightBytes, bytesPerToken } = estimateGpuMemory(model, dtype);
    return Promise.resolve(passBytes + weightBytes + bytesPerToken * Math.min(expectedTokens, contextLength));
  };
  const choice = await keepIfRoom(await chooseDevice(wish, host), countBytes, host);
  const device = recordDevice(choice);
  if (choice.kind === 'cpu')
    return choice.reason === undefined ? { device } : { device, reason: choice.reason };
  const memory = estimateGpuMemory(model, choice.dtype);
  const freeBytes = await host.freeBytes(choice.ordinal);
  const fittingTokens = Math.min(contextLength, Math.max(0, countFittingTokens(memory, freeBytes)));
  const { weightBytes, bytesPerToken } = memory;
  const cacheBytes = bytesPerToken * contextLength;
  return { device, memory: { weightBytes, cacheBytes, freeBytes, fittingTokens } };
}

export function fitLines({ device, reason, memory }: DeviceFit, model: ModelConfiguration): readonly Fact[] {
  if (memory === undefined) return [['would run on', reason ?? nameDevice(device)]];
  const { weightBytes, cacheBytes, freeBytes, fittingTokens } = memory;
  const isWhole = fittingTokens === model.contextLength;
  const verdict = isWhole
    ? 'fits'
    : fittingTokens > 0
      ? `fits with a context of up to ${formatCount(fittingTokens)} tokens`
      : 'does not fit';
  return [
    ['would run on', `${nameDevice(device)}, ${formatBytes(freeBytes)} free: ${verdict}`],
    [
      '  memory there',
      `${formatBytes(weightBytes)} of weights, ${formatBytes(cacheBytes)} of KV cache for the whole context`,
    ],
  ];
}
