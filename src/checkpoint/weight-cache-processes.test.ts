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
import ts from 'typescript';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WeightStore } from '../runtime/weights.js';
import { trimCache } from './cache-removal.js';
import { openCheckpoint } from './open-checkpoint.js';
import { makeTemporaryFolder } from './testing/temporary-folder.js';
import { writeSafetensors } from './testing/write-safetensors.js';
import { prepareWeights } from './weight-cache.js';
import type { CacheOptions } from './weight-cache.js';

const recipes = [
  { name: 'a', shape: [3], parts: [{ tensor: 'a', shape: [3] }] },
  { name: 'b', shape: [1], parts: [{ tensor: 'b', shape: [1] }] },
];

let temporary: ReturnType<typeof makeTemporaryFolder>;
let model: string;
let cacheFolder: string;
beforeEach(() => {
  temporary = makeTemporaryFolder();
  model = join(temporary.path, 'model');
  cacheFolder = join(temporary.path, 'cache');
  mkdirSync(model);
  writeSafetensors(join(model, 'model.safetensors'), {
    a: { dtype: 'F16', shape: [3], values: [1, 2, 3] },
    b: { dtype: 'F32', shape: [1], values: [4] },
  });
});
afterEach(() => {
  temporary.remove();
});

async function prepare(options: CacheOptions = {}): Promise<WeightStore> {
  return prepareWeights(await openCheckpoint(model), recipes, { cacheFolder, ...options });
}

function pathOf(store: WeightStore): string {
  if (store.kind !== 'file') throw new Error('expected a file');
  return store.path;
}

const cacheNames = (ending: string): string[] =>
  readdirSync(cacheFolder).filter((name) => name.endsWith(ending));

/** Compiles this room and what it stands on, so that a test can run it in processes of its own and kill them. */
function buildForChildProcess(folder: string): void {
  const source = fileURLToPath(new URL('../', import.meta.url));
  for (const room of ['core', 'runtime', 'checkpoint']) {
    mkdirSync(join(folder, room), { recursive: true });
    for (const name of readdirSync(join(source, room))) {
      if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue;
      const { outputText } = ts.transpileModule(readFileSync(join(source, room, name), 'utf8'), {
        compilerOptions: {
          target: ts.ScriptTarget.ES2022,
          module: ts.ModuleKind.ESNext,
          verbatimModuleSyntax: true,
        },
      });
      writeFileSync(join(folder, room, name.replace(/ts$/, 'js')), outputText);
    }
  }
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  const modules = join(source, '..', 'node_modules');
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
    const main = join(temporary.path, 'build', `main-${(scripts += 1)}.js`);
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
    import { openCheckpoint } from './checkpoint/open-checkpoint.js';
    import { openCacheOutput } from './checkpoint/cache-file.js';
    import { prepareWeights } from './checkpoint/weight-cache.js';
    const cacheFolder = ${JSON.stringify(cacheFolder)};
    const store = await prepareWeights(await openCheckpoint(${JSON.stringify(model)}), ${JSON.stringify(recipes)}, { cacheFolder, ${options} });
    process.stdout.write(store.path);`;

  it('races well', async () => {
    buildForChildProcess(join(temporary.path, 'build'));
    const results = await Promise.all([run(script('')), run(script('')), run(script(''))]);
    const path = pathOf(await prepare({ openOutput: () => Promise.reject(new Error('must not write')) }));
    expect(results).toEqual(Array.from({ length: 3 }, () => ({ code: 0, signal: null, output: path })));
  });

  it('survives being killed half way', async () => {
    buildForChildProcess(join(temporary.path, 'build'));
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
    expect(cacheNames('.weights')).toEqual([]);
    const [left] = cacheNames('.tmp');
    expect(left).toBeDefined();
    // The names of those whose writers live, or cannot be asked: young, they stay.
    const [key, , host, random] = left!.split('.');
    const others = [
      `${key}.${process.pid}.${host}.${random}.tmp`,
      `${key}.1.${'0'.repeat(16)}.${random}.tmp`,
    ];
    for (const name of [...others, 'somebody-elses.tmp']) writeFileSync(join(cacheFolder, name), '');

    const store = await prepare();
    const first = new Float32Array(Uint8Array.from(readFileSync(pathOf(store)).subarray(0, 12)).buffer);
    expect(Array.from(first)).toEqual([1, 2, 3]);
    expect(cacheNames('.tmp').sort()).toEqual([...others, 'somebody-elses.tmp'].sort());

    const old = new Date(Date.now() - 2 * 60 * 60 * 1000);
    for (const name of cacheNames('.tmp')) utimesSync(join(cacheFolder, name), old, old);
    chmodSync(pathOf(store), 0o600);
    truncateSync(pathOf(store), 0);
    await prepare();
    expect(cacheNames('.tmp')).toEqual(['somebody-elses.tmp']);
  });

  it('two write while one trims: nobody loses what he uses', async () => {
    const build = join(temporary.path, 'build');
    buildForChildProcess(build);
    mkdirSync(cacheFolder);
    for (let index = 0; index < 40; index += 1) {
      const key = index.toString(16).padStart(64, '0');
      writeFileSync(join(cacheFolder, `${key}.weights`), new Uint8Array(5000));
    }
    const opening = `
      import { existsSync, readFileSync, writeFileSync } from 'node:fs';
      import { setTimeout } from 'node:timers/promises';
      import { openCheckpoint } from './checkpoint/open-checkpoint.js';
      import { trimCache } from './checkpoint/cache-removal.js';
      import { prepareWeights } from './checkpoint/weight-cache.js';
      const cacheFolder = ${JSON.stringify(cacheFolder)};
      const isFinished = (name) => existsSync(${JSON.stringify(build)} + '/finished-' + name);`;
    // Both make the same files, and live until the other is finished: who ends takes his marks along.
    const writer = (name: string, other: string): string => `${opening}
      const checkpoint = await openCheckpoint(${JSON.stringify(model)});
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
    expect(cacheNames('.tmp')).toEqual([]);
    expect(readdirSync(join(cacheFolder, 'in-use'))).toEqual([]);
  });

  it('killed in the middle of trimming, it leaves a smaller cache that is whole', async () => {
    buildForChildProcess(join(temporary.path, 'build'));
    const used = await run(script(''));
    const keys = ['a', 'b'].map((digit) => join(cacheFolder, `${digit.repeat(64)}.weights`));
    for (const [index, path] of keys.entries()) {
      for (const each of [path, `${path}.json`]) {
        writeFileSync(each, '{}');
        utimesSync(each, new Date(index), new Date(index));
      }
    }
    const trimming = `
      import fs from 'node:fs/promises';
      import { syncBuiltinESMExports } from 'node:module';
      import { trimCache } from './checkpoint/cache-removal.js';
      const { rm } = fs;
      let calls = 0;
      fs.rm = async (...words) => {
        await rm(...words);
        calls += words[0].includes('.weights') ? 1 : 0;
        if (calls === 3) { process.kill(process.pid, 'SIGKILL'); await new Promise(() => setTimeout(() => {}, 1e6)); }
      };
      syncBuiltinESMExports();
      await trimCache(${JSON.stringify(cacheFolder)}, 0);`;
    expect((await run(trimming)).signal).toBe('SIGKILL');
    const left = basename(used.output);
    expect(cacheNames('.weights')).toEqual([left]);
    expect(cacheNames('.weights.json').sort()).toEqual(
      [`${'b'.repeat(64)}.weights.json`, `${left}.json`].sort(),
    );
    const refuseWriting = () => Promise.reject(new Error('must not write'));
    expect(pathOf(await prepare({ openOutput: refuseWriting }))).toBe(used.output);
    await trimCache(cacheFolder, 1e6);
    expect(cacheNames('.weights.json')).toEqual([`${left}.json`]); // the stray note is old, and goes
  });

  it('uses a folder that it cannot write, and keeps in memory what is not there', async () => {
    buildForChildProcess(join(temporary.path, 'build'));
    const made = pathOf(await prepare());
    for (const path of [temporary.path, model, join(temporary.path, 'build')]) chmodSync(path, 0o755);
    chmodSync(made, 0o444);
    chmodSync(cacheFolder, 0o555);
    // The mode of a folder does not bind root.
    const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
    try {
      const known = await run(script('onNotice: console.log'), user);
      expect(known).toEqual({ code: 0, signal: null, output: made });
      rmSync(made);
      const absent = await run(script('onNotice: console.log').replace('store.path', 'store.kind'), user);
      expect(absent.output).toMatch(/cannot be written \(EACCES.*kept in memory.*\nmemory$/);
      expect(absent.code).toBe(0);
    } finally {
      chmodSync(cacheFolder, 0o755);
    }
  });
});
