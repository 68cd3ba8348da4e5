/** The alert rules fire when they should, by Prometheus' own tool. */
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

const isInstalled = spawnSync('promtool', ['--version']).status === 0;
if (!isInstalled)
  console.warn('promtool is not installed: the alert rules are not tested (apt-get install prometheus).');

it.skipIf(!isInstalled)('promtool accepts examples/grafana/alerts.test.yaml', () => {
  const cwd = resolve(import.meta.dirname, '../examples/grafana');
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'alerts.test.yaml'], {
    cwd,
    encoding: 'utf8',
  });
  expect(status, stdout + stderr).toBe(0);
});
