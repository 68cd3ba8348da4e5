/** What two audits were not given alike: models, options, versions. What they found is another matter. */
import type { AuditSetup } from '../audit/result.js';
import type { SetupDifference, SetupValue, Sides } from './comparison-record.js';

/** `drafters` says which of the one is compared with which of the other. */
export function listDifferences(
  before: AuditSetup,
  after: AuditSetup,
  drafters: readonly Sides<string>[],
): SetupDifference[] {
  const listed: SetupDifference[] = [
    { name: 'version', before: before.version, after: after.version },
    { name: 'node', before: before.node, after: after.node },
    { name: 'target', before: before.target.name, after: after.target.name },
    { name: 'target files (sha256)', before: before.target.sha256, after: after.target.sha256 },
    ...drafters.flatMap((pair) => listDrafter(before, after, pair)),
    { name: 'preset', before: before.preset, after: after.preset },
    { name: 'seed', before: before.seed, after: after.seed },
    { name: 'prompts given', before: before.promptCount, after: after.promptCount },
    ...listOptions(before, after),
  ];
  return listed.filter((difference) => difference.before !== difference.after);
}

function listDrafter(before: AuditSetup, after: AuditSetup, pair: Sides<string>): SetupDifference[] {
  const first = before.drafters.find(({ id }) => id === pair.before);
  const second = after.drafters.find(({ id }) => id === pair.after);
  const row = (name: string, value: (drafter: AuditSetup['drafters'][number]) => SetupValue) => ({
    name: `${pair.after} ${name}`,
    before: first === undefined ? null : value(first),
    after: second === undefined ? null : value(second),
  });
  return [
    { name: 'drafter', before: pair.before, after: pair.after },
    row('system', ({ system }) => system),
    row('draft policy', ({ policy }) => policy),
    row('files (sha256)', ({ sha256 }) => sha256),
  ];
}

function listOptions(before: AuditSetup, after: AuditSetup): SetupDifference[] {
  const names = new Set([...Object.keys(before.options), ...Object.keys(after.options)]);
  return [...names].map((name) => ({
    name: `option ${name}`,
    before: before.options[name] ?? null,
    after: after.options[name] ?? null,
  }));
}
