import { afterAll, expect, it } from 'vitest';
import { AuditCommands } from './audit-commands.js';

const commands = new AuditCommands();
afterAll(() => commands.dispose());

it.each([
  ['SIGTERM', 143, 'another SIGTERM'],
  ['SIGHUP', 129, 'another SIGHUP'],
] as const)('at %s finishes the step, says how to resume, and resumes', async (signal, code, again) => {
  await commands.interruptAndResume(signal, code, again);
});

it('reports every event of an uninterrupted run', async () => {
  const folder = commands.freshFolder();
  const words = [...commands.common, '--limit', '1', '--out', folder, '--progress', 'json'];
  const { code, err } = await commands.audit(words);
  expect(code).toBe(0);
  const events = err
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(events[0]).toMatchObject({ event: 'note', preset: 'quick', folder, units: 7 });
  expect(events[1]).toEqual({ event: 'progress-start', label: 'audit', total: 7 });
  expect(events.at(-1)).toMatchObject({ event: 'progress-end' });
});
