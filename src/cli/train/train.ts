/** `mistletoe train`: its help, and what it runs. */
import { trainableSystems } from '../../draft/fresh/new-drafter.js';
import { defaultSettings } from '../../train/settings.js';
import { defineCommand } from '../command.js';
import { targetFlag } from '../common-flags.js';
import { givenTraining, trainFlags } from './train-flags.js';

export const train = defineCommand({
  name: 'train',
  description:
    'The target answers your questions, a drafter learns to predict these answers, and its accepted length is measured on held-out texts. The drafter is a folder in the published layout of its system.',
  flags: trainFlags,
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
    const defaults = { ...defaultSettings({ system, maximumDepth }), generate: undefined };
    const given = givenTraining({ ...flags, noGenerate: undefined });
    const warmupSteps = Math.ceil((given.steps ?? defaults.steps) / 20);
    const settings = { ...defaults, warmupSteps, ...given };
    const finite = Object.fromEntries(
      Object.entries(settings).filter(([, value]) => value !== Infinity && value !== undefined),
    );
    const target = flags.target === targetFlag.target.default ? undefined : flags.target;
    return { ...flags, ...finite, target };
  },
  async run(flags, invocation) {
    const { runTrain } = await import('./run-train.js');
    return runTrain(flags, invocation);
  },
});
