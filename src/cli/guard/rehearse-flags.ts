/** The flags of `mistletoe guard rehearse`. */
import { decimal, integer, text } from '../../core/settings.js';
import { bundledDrafters } from '../../decode/bundled-models.js';
import * as common from '../common-flags.js';
import { type FlagsOf, flag, group } from '../flags.js';

export const falseAlertsFlag = {
  falseAlerts: flag(
    'share of benign requests that may be called low',
    decimal({ above: 0, max: 0.5 }),
    'share',
    { shownDefault: '0.01' },
  ),
};

export const rehearseFlags = {
  ...group('Models', {
    ...common.targetFlag,
    drafter: flag(
      `its folder or its name on the hub, ${bundledDrafters.join(', ')}, or ngram[:MIN,MAX]`,
      text,
      'model',
      { short: 'd', default: 'eagle3' },
    ),
    draftLength: flag('draft tokens per step', integer(1, 64), 'count', { default: 4 }),
    ...common.tapsFlag,
    ...common.templateFlags,
  }),
  ...group('Requests', {
    prompts: flag('a .jsonl or .txt file', text, 'file', { shownDefault: 'the bundled prompts' }),
    requests: flag('normal requests before the collapse', integer(1, 100_000), 'count', { default: 60 }),
    stageRequests: flag('requests of each stage of the collapse', integer(1, 1000), 'count', { default: 4 }),
    maxNewTokens: flag('of each answer', integer(1, 100_000), 'count', { default: 128 }),
    ...falseAlertsFlag,
  }),
  ...group('Machine', { ...common.downloadFlag, ...common.machineFlags }),
};
export type RehearseFlags = FlagsOf<typeof rehearseFlags>;
