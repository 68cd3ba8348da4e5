/** `mistletoe harden`: its help, and what it runs. */
import { applyPreset } from '../../audit/settings.js';
import { completeHardening, hardeningPace, hardeningRate } from '../../train/harden/hardening-settings.js';
import { defineCommand } from '../command.js';
import { targetFlag } from '../common-flags.js';
import { givenAudit, givenHardening, hardenFlags, sharedAudit } from './harden-flags.js';

export const harden = defineCommand({
  name: 'harden',
  description:
    'In rounds: searches suffixes against a drafter on the prompts of your data, generates the target’s answers to them, and trains the drafter on these texts. Then audits it next to the original, on prompts, seeds and a suffix length that training never saw.',
  flags: hardenFlags,
  examples: [
    ['mistletoe harden --drafter eagle3 --data questions.jsonl', 'the bundled head, small prompt set'],
    [
      'mistletoe harden -t ./my-model -d ./my-eagle3 --data chats.jsonl -p my-audit.jsonl --out runs/hard',
      '',
    ],
    ['mistletoe harden -d sps --data questions.jsonl --audits other-objective --audits stronger', ''],
    ['mistletoe harden --show-config', 'all settings, as YAML for --config'],
    ['mistletoe harden --resume runs/hard', 'continue after Ctrl-C or a crash'],
  ],
  notes:
    'The run folder has hardened/round-N/last, which are drafters for --drafter, audits/, report.html, report.md and result.json.\n\nExit codes: 0 done, 1 failure, 2 invalid input, 3 nothing audited, 130 interrupted (SIGTERM: 143, SIGHUP: 129).',
  complete(flags) {
    const { steps, objective, maxNewTokens, ...audit } = applyPreset(flags.preset, givenAudit(flags));
    const target = flags.target === targetFlag.target.default ? undefined : flags.target;
    return {
      ...audit,
      ...flags,
      ...Object.fromEntries(Object.entries(audit).filter(([name]) => name in sharedAudit)),
      ...completeHardening(givenHardening(flags)),
      rate: flags.rate ?? hardeningRate,
      validateEvery: flags.validateEvery ?? hardeningPace,
      saveEvery: flags.saveEvery ?? hardeningPace,
      auditSteps: steps,
      auditObjective: objective,
      auditNewTokens: maxNewTokens,
      target,
    };
  },
  async run(flags, invocation) {
    const { runHarden } = await import('./run-harden.js');
    return runHarden(flags, invocation);
  },
});
