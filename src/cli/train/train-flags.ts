/** The flag table of `mistletoe train`. */
import { deepestDraft } from '../../core/limits.js';
import { integer, omitSetting, text } from '../../core/settings.js';
import { trainableSystems } from '../../draft/fresh/new-drafter.js';
import type { TrainSettings } from '../../train/settings.js';
import {
  defaultSettings,
  learningSettings,
  objectiveSettings,
  textSettings,
  trainSettings,
} from '../../train/settings.js';
import type { DrafterShape } from '../../train/train-request.js';
import * as common from '../common-flags.js';
import type { FlagsOf, Given } from '../flags.js';
import { flag, group, pickGiven, settingFlags, toggle } from '../flags.js';

/** The value that most systems have, and the exceptions. */
function describeDefault(name: keyof TrainSettings): string {
  const valueOf = (system: string): string =>
    String(defaultSettings({ system, maximumDepth: Infinity })[name]);
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

const otherTextSettings = omitSetting(textSettings, 'generate');

const shapeFlags = {
  heads: flag('of medusa and hydra', integer(1, deepestDraft), 'count', { rare: true }),
  layers: flag('of a draft model or an EAGLE-3 head, or blocks per head of medusa and hydra', integer(1, 1024), 'count'),
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

export const trainFlags = {
  ...group('What to train', {
    ...common.targetFlag,
    system: flag(`start with fresh weights: ${trainableSystems.join(', ')}`, text, 'name'),
    from: flag('start from this drafter: a folder, a hub name or a bundled name', text, 'model'),
    ...conversationFlags,
    limit: { ...common.promptSetFlags.limit, help: 'use only the first conversations' },
    ...common.tapsFlag,
    ...common.templateFlags,
    ...common.downloadFlag,
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
  ...group('Run', {
    ...common.runFlags,
    ...common.reportFormatFlag,
    ...common.progressFlag,
    ...common.machineFlags,
  }),
};
export type TrainFlags = FlagsOf<typeof trainFlags>;

/** The settings that were given. */
export const givenTraining = (
  flags: Given<TrainSettings> & { readonly noGenerate?: true | undefined },
): Partial<TrainSettings> => ({
  ...pickGiven(trainSettings, flags),
  ...(flags.noGenerate === true ? { generate: false } : {}),
});

export const givenShape = (flags: FlagsOf<typeof shapeFlags>): DrafterShape => pickGiven(shapeFlags, flags);
