/** What only separate processes can show: a race on one cache folder, and being killed half way. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { transpileInto } from '../../../test/support/transpiled-sources.js';
import { trimCache } from './cache-contents.js';
import { CachedModel, pathOf } from '../../../test/support/checkpoint/cached-model.js';

const recipes = [
  { name: 'a', shape: [3], parts: [{ tensor: 'a', shape: [3] }] },
  { name: 'b', shape: [1], parts: [{ tensor: 'b', shape: [1] }] },
];
const model = new CachedModel(recipes, {
  a: { dtype: 'F16', shape: [3], values: [1, 2, 3] },
  b: { dtype: 'F32', shape: [1], values: [4] },
});

/** Compiles this room and what it stands on, so that a test can run it in processes of its own and kill them. */
function buildForChildProcess(folder: string): void {
  transpileInto(folder, ['src/core', 'src/runtime', 'src/checkpoint']);
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
  try {
    symlinkSync(modules, join(folder, 'node_modules'), 'dir');
  } catch {
    cpSync(join(modules, 'zod'), join(folder, 'node_modules', 'zod'), { recursive: true });
  }
}

describe('prepareWeights in processes of its own', () => {
  let scripts = 0;
  const run = (
    script: string,
    user: { uid?: number; gid?: number } = {},
  ): Promise<{ code: number | null; signal: string | null; output: string }> => {
    const main = join(model.parent, 'build', `main-${(scripts += 1)}.js`);
    writeFileSync(main, script);
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [main], { stdio: ['ignore', 'pipe', 'inherit'], ...user });
      let output = '';
      child.stdout.on('data', (data: Buffer) => (output += data.toString()));
      child.on('error', reject);
      child.on('close', (code, signal) => {
        resolve({ code, signal, output });
      });
    });
  };
  const script = (options: string): string => `
    import { openCheckpoint } from './src/checkpoint/open-checkpoint.js';
    import { openCacheOutput, prepareWeights } from './src/checkpoint/cache/weight-cache.js';
    const cacheFolder = ${JSON.stringify(model.cacheFolder)};
    const store = await prepareWeights(await openCheckpoint(${JSON.stringify(model.folder)}), ${JSON.stringify(recipes)}, { cacheFolder, ${options} });
    process.stdout.write(store.path);`;

  it('races well', async () => {
    buildForChildProcess(join(model.parent, 'build'));
    const results = await Promise.all([run(script('')), run(script('')), run(script(''))]);
    const path = pathOf(
      await model.prepare({ openOutput: () => Promise.reject(new Error('must not write')) }),
    );
    expect(results).toEqual(Array.from({ length: 3 }, () => ({ code: 0, signal: null, output: path })));
  });

  it('survives being killed half way', async () => {
    buildForChildProcess(join(model.parent, 'build'));
    const result = await run(
      script(`openOutput: async (path) => {
        const output = await openCacheOutput(path);
        let writes = 0;
        return { ...output, write: async (bytes) => {
          await output.write(bytes);
          writes += 1;
          if (writes === 3) { process.kill(process.pid, 'SIGKILL'); await new Promise(() => setTimeout(() => {}, 1e6)); }
        } };
      }`),
    );
    expect(result.signal).toBe('SIGKILL');
    expect(model.cacheNames('.weights')).toEqual([]);
    const [left] = model.cacheNames('.tmp');
    expect(left).toBeDefined();
    // The names of those whose writers live, or cannot be asked: young, they stay.
    const [key, , , host, random] = left!.split('.'); // KEY.weights.PID.HOST.RANDOM.tmp
    const others = [
      `${key}.${process.pid}.${host}.${random}.tmp`,
      `${key}.1.${'0'.repeat(16)}.${random}.tmp`,
    ];
    for (const name of [...others, 'somebody-elses.tmp']) writeFileSync(join(model.cacheFolder, name), '');

    const store = await model.prepare();
    const first = new Float32Array(Uint8Array.from(readFileSync(pathOf(store)).subarray(0, 12)).buffer);
    expect(Array.from(first)).toEqual([1, 2, 3]);
    expect(model.cacheNames('.tmp').sort()).toEqual([...others, 'somebody-elses.tmp'].sort());

    const old = new Date(Date.now() - 2 * 60 * 60 * 1000);
    for (const name of model.cacheNames('.tmp')) utimesSync(join(model.cacheFolder, name), old, old);
    chmodSync(pathOf(store), 0o600);
    truncateSync(pathOf(store), 0);
    await model.prepare();
    expect(model.cacheNames('.tmp')).toEqual(['somebody-elses.tmp']);
  });

  it('two write while one trims: nobody loses what he uses', async () => {
    const build = join(model.parent, 'build');
    buildForChildProcess(build);
    mkdirSync(model.cacheFolder);
    for (let index = 0; index < 40; index += 1) {
      const key = index.toString(16).padStart(64, '0');
      writeFileSync(join(model.cacheFolder, `${key}.weights`), new Uint8Array(5000));
    }
    const opening = `
      import { existsSync, readFileSync, writeFileSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      import { openCheckpoint } from './src/checkpoint/open-checkpoint.js';
      import { trimCache } from './src/checkpoint/cache/cache-contents.js';
      import { prepareWeights } from './src/checkpoint/cache/weight-cache.js';
      const cacheFolder = ${JSON.stringify(model.cacheFolder)};
      const isFinished = (name) => existsSync(${JSON.stringify(build)} + '/finished-' + name);`;
    // Both make the same files, and live until the other is finished: who ends takes his marks along.
    const writer = (name: string, other: string): string => `${opening}
      const checkpoint = await openCheckpoint(${JSON.stringify(model.folder)});
      const stores = [];
      for (let index = 0; index < 15; index += 1) {
        const recipe = { name: 'a' + index, shape: [3], parts: [{ tensor: 'a', shape: [3] }] };
        stores.push(await prepareWeights(checkpoint, [recipe], { cacheFolder }));
      }
      const wrong = stores.filter((store) => store.kind !== 'file' || readFileSync(store.path).readFloatLE(8) !== 3);
      writeFileSync(${JSON.stringify(build)} + '/finished-${name}', '');
      while (!isFinished('${other}')) await setTimeout(10);
      process.stdout.write('wrong ' + wrong.length + ', gone ' + stores.filter(({ path }) => !existsSync(path)).length);`;
    const trimmer = `${opening}
      let removed = 0;
      let failed = 0;
      do {
        const removal = await trimCache(cacheFolder, 0);
        removed += removal.removed.length;
        failed += removal.failures.length;
      } while (!isFinished('one') || !isFinished('two'));
      process.stdout.write('removed ' + removed + ', failed ' + failed);`;
    const results = await Promise.all([run(writer('one', 'two')), run(writer('two', 'one')), run(trimmer)]);
    expect(results.map(({ output }) => output)).toEqual([
      'wrong 0, gone 0',
      'wrong 0, gone 0',
      'removed 40, failed 0',
    ]);
    expect(model.cacheNames('.tmp')).toEqual([]);
    expect(readdirSync(join(model.cacheFolder, 'in-use'))).toEqual([]);
  });

  it('killed in the middle of trimming, it leaves a smaller cache that is whole', async () => {
    buildForChildProcess(join(model.parent, 'build'));
    const used = await run(script(''));
    const keys = ['a', 'b'].map((digit) => join(model.cacheFolder, `${digit.repeat(64)}.weights`));
    for (const [index, path] of keys.entries()) {
      for (const each of [path, `${path}.json`]) {
        writeFileSync(each, '{}');
        utimesSync(each, new Date(index), new Date(index));
      }
    }
    const trimming = `
      import fs from 'node:fs/promises';
      import { syncBuiltinESMExports } from 'node:module';
      import { trimCache } from './src/checkpoint/cache/cache-contents.js';
      const { rm } = fs;
      let calls = 0;
      fs.rm = async (...words) => {
        await rm(...words);
        calls += words[0].includes('.weights') ? 1 : 0;
        if (calls === 3) { process.kill(process.pid, 'SIGKILL'); await new Promise(() => setTimeout(() => {}, 1e6)); }
      };
      syncBuiltinESMExports();
      await trimCache(${JSON.stringify(model.cacheFolder)}, 0);`;
    expect((await run(trimming)).signal).toBe('SIGKILL');
    const left = basename(used.output);
    expect(model.cacheNames('.weights')).toEqual([left]);
    expect(model.cacheNames('.weights.json').sort()).toEqual(
      [`${'b'.repeat(64)}.weights.json`, `${left}.json`].sort(),
    );
    const refuseWriting = () => Promise.reject(new Error('must not write'));
    expect(pathOf(await model.prepare({ openOutput: refuseWriting }))).toBe(used.output);
    await trimCache(model.cacheFolder, 1e6);
    expect(model.cacheNames('.weights.json')).toEqual([`${left}.json`]); // the stray note is old, and goes
  });

  it('uses a folder that it cannot write, and keeps in memory what is not there', async () => {
    buildForChildProcess(join(model.parent, 'build'));
    const made = pathOf(await model.prepare());
    for (const path of [model.parent, model.folder, join(model.parent, 'build')]) chmodSync(path, 0o755);
    chmodSync(made, 0o444);
    chmodSync(model.cacheFolder, 0o555);
    // The mode of a folder does not bind root.
    const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
    try {
      const known = await run(script('onNotice: console.log'), user);
      expect(known).toEqual({ code: 0, signal: null, output: made });
      rmSync(made);
      const absent = await run(script('onNotice: console.log').replace('store.path', 'store.kind'), user);
      expect(absent.output).toMatch(/could not be written .*EACCES.*kept in memory.*\nmemory$/);
      expect(absent.code).toBe(0);
    } finally {
      chmodSync(model.cacheFolder, 0o755);
    }
  });
});
