/** A process that is killed before each single call that changes the disk, and what lies there afterwards. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { transpileForTests } from '../../test/support/transpiled-sources.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { restoreFolder, writeWholeFolder } from './written-folder.js';

const { path: parent, remove } = makeTemporaryFolder();
afterAll(remove);
const place = join(parent, 'drafter');
const build = transpileForTests('written-folder');

const names = ['config.json', 'model.safetensors'];
const script = join(build.folder, 'main.js');
writeFileSync(
  script,
  `
import fs from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
let left = Number(process.argv[2]);
function killBefore(module, name) {
  const original = module[name];
  module[name] = (...given) => {
    if (left-- === 0) process.kill(process.pid, 'SIGKILL');
    return original(...given);
  };
}
for (const name of ['mkdir', 'open', 'rename', 'rm']) killBefore(promises, name);
for (const name of ['mkdirSync', 'openSync', 'renameSync', 'rmSync']) killBefore(fs, name);
syncBuiltinESMExports();
const { writeWholeFile } = await import('./src/checkpoint/written-folder.js');
const { writeWholeFolder } = await import('./src/checkpoint/written-folder.js');
await writeWholeFolder(${JSON.stringify(place)}, async (folder) => {
  for (const name of ${JSON.stringify(names)})
    await writeWholeFile(folder + '/' + name, (append) => append(Buffer.from('new')));
});
`,
);

it('leaves the old folder or the new one, whole, whenever it is killed', async () => {
  const outcomes: string[] = [];
  for (let calls = 0; ; calls++) {
    rmSync(place, { recursive: true, force: true });
    await writeWholeFolder(place, (folder) => {
      for (const name of names) writeFileSync(join(folder, name), 'old');
      return Promise.resolve();
    });
    const { signal, status } = spawnSync(process.execPath, [script, String(calls)], { stdio: 'inherit' });
    await restoreFolder(place);
    const [first, ...others] = names.map((name) => readFileSync(join(place, name), 'utf8'));
    expect(others).toEqual([first]);
    expect(readdirSync(place).sort()).toEqual(names);
    expect(readdirSync(parent)).toEqual(['drafter']);
    outcomes.push(first!);
    if (signal === 'SIGKILL') continue;
    expect(status).toBe(0);
    break;
  }
  expect(outcomes.length).toBeGreaterThan(8);
  // Once it is new it stays so.
  expect(outcomes).toEqual([...outcomes].sort().reverse());
  expect(new Set(outcomes)).toEqual(new Set(['old', 'new']));
});
