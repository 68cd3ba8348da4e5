/** `mistletoe train`: its flags and help. */
import { deepestDraft } from '../../core/limits.js';
import { integer, text } from '../../core/settings.js';
import { trainableSystems } from '../../train/systems/new-drafter.js';
import type { TrainSettings } from '../../train/settings.js';
import {
  defaultSettings,
  learningSettings,
  objectiveSettings,
  textSettings,
  trainSettings,
} from '../../train/settings.js';
import type { DrafterShape } from '../../train/train-request.js';
import { defineCommand } from '../command.js';
import {
  downloadFlag,
  machineFlags,
  progressFlag,
  promptSetFlags,
  reportFormatFlag,
  runFlags,
  tapsFlag,
  targetFlag,
  templateFlags,
} from '../common-flags.js';
import type { FlagsOf, Given } from '../flags.js';
import { flag, group, settingFlags, toggle } from '../flags.js';

/** The value that most systems have, and the exceptions. */
function describeDefault(name: keyof TrainSettings): string {
  const valueOf = (system: string): string =>
    String(
      defaultSettings({ system, maximumDepth: Infinity } as Parameters<typeof defaultSettings>[0])[name],
    );
  const common = valueOf('speculative-sampling');
  const others = trainableSystems.filter((system) => valueOf(system) !== common);
  return [common, ...others.map((system) => `${system}: ${valueOf(system)}`)].join('; ');
}

export const conversationFlags = {
  data: flag(
    'one conversation a line: {"prompt": …}, {"messages": …}, {"turns": …} or {"conversations": …}',
    text,
    'file',
  ),
  answers: flag(
    'reuse the answers that the target generated in an earlier run of train or harden; missing answers are generated',
    text,
    'run',
  ),
};

const { generate: _generate, ...otherTextSettings } = textSettings;

const shapeFlags = {
  heads: flag('of medusa and hydra', integer(1, deepestDraft), 'count'),
  layers: flag('of a draft model, or blocks per head of medusa and hydra', integer(1, 1024), 'count'),
  hiddenSize: flag('of a draft model', integer(1, 2 ** 20), 'width', { rare: true }),
  targetLayers: flag(
    'make the draft model from this many of the target’s own layers, at the target’s width',
    integer(1, 1024),
    'count',
    { rare: true },
  ),
  draftVocabulary: flag('tokens that eagle3 can propose', integer(1), 'tokens', { rare: true }),
  prefixLayer: toggle('hydra with an extra layer before the heads: Hydra++', { rare: true }),
};

const flags = {
  ...group('What to train', {
    ...targetFlag,
    system: flag(`start with fresh weights: ${trainableSystems.join(', ')}`, text, 'name'),
    from: flag('start from this drafter: a folder, a hub name or a bundled name', text, 'model'),
    ...conversationFlags,
    limit: { ...promptSetFlags.limit, help: 'use only the first conversations' },
    ...tapsFlag,
    ...templateFlags,
    ...downloadFlag,
  }),
  ...group('Size of a fresh drafter (default: as published, or derived from the target)', shapeFlags),
  ...group('How it learns [default]', {
    ...settingFlags(learningSettings, describeDefault),
    ...settingFlags(objectiveSettings, describeDefault),
  }),
  ...group('Texts, answers and measurements [default]', {
    noGenerate: toggle('learn from the answers in the data instead of generating them', { rare: true }),
    ...settingFlags(otherTextSettings, describeDefault),
  }),
  ...group('Run', { ...runFlags, ...reportFormatFlag, ...progressFlag, ...machineFlags }),
};
export type TrainFlags = FlagsOf<typeof flags>;

/** The settings that were given. */
export function givenTraining(
  flags: Given<TrainSettings> & { readonly noGenerate?: true | undefined },
): Partial<TrainSettings> {
  const names = Object.keys(trainSettings) as (keyof TrainSettings)[];
  const given = names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]);
  return { ...Object.fromEntries(given), ...(flags.noGenerate === true ? { generate: false } : {}) };
}

export function givenShape(flags: FlagsOf<typeof shapeFlags>): DrafterShape {
  const names = Object.keys(shapeFlags) as (keyof typeof shapeFlags)[];
  return Object.fromEntries(
    names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]),
  );
}

export const train = defineCommand({
  name: 'train',
  description:
    'The target answers your questions, a drafter learns to predict these answers, and its accepted length is measured on held-out texts. The drafter is a folder in the published layout of its system.',
  flags,
  examples: [
    ['mistletoe train --system eagle3 --data questions.jsonl --steps 500', 'for the bundled model'],
    ['mistletoe train -t ./my-model --system medusa --heads 3 --data chats.jsonl --out runs/medusa', ''],
    ['mistletoe train -t ./my-model --from ./my-eagle3 --data chats.jsonl --learning-rate 1e-4', ''],
    ['mistletoe train --system eagle3 --show-config', 'all settings, as YAML for --config'],
    ['mistletoe train --resume runs/medusa', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'The run folder has best/ and last/, which are drafters for --drafter, and report.html, report.md, result.json, log.jsonl.\n\nExit codes: 0 done, 1 failure, 2 invalid input, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete(flags) {
    const system = trainableSystems.find((name) => name === flags.system) ?? 'speculative-sampling';
    const maximumDepth = flags.heads ?? Infinity;
    const { generate: _, ...defaults } = defaultSettings({ system, maximumDepth });
    const given = givenTraining({ ...flags, noGenerate: undefined });
    const warmupSteps = Math.ceil((given.steps ?? defaults.steps) / 20);
    const settings = { ...defaults, warmupSteps, ...given };
    const finite = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== Infinity));
    const target = flags.target === targetFlag.target.default ? undefined : flags.target;
    return { ...flags, ...finite, target };
  },
  async run(flags, invocation) {
    const { runTrain } = await import('./run-train.js');
    return runTrain(flags, invocation);
  },
});
