/** What only separate processes can show: a race on one cache folder, and being killed half way. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WeightStore } from '../runtime/weights.js';
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
  const run = (script: string): Promise<{ code: number | null; signal: string | null; output: string }> => {
    const build = join(temporary.path, 'build');
    writeFileSync(join(build, 'main.js'), script);
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [join(build, 'main.js')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
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

    const store = await prepare();
    const first = new Float32Array(Uint8Array.from(readFileSync(pathOf(store)).subarray(0, 12)).buffer);
    expect(Array.from(first)).toEqual([1, 2, 3]);
    expect(cacheNames('.tmp')).toEqual([left]); // young: it might belong to a living process

    const old = new Date(Date.now() - 2 * 60 * 60 * 1000);
    utimesSync(join(cacheFolder, left!), old, old);
    writeFileSync(join(cacheFolder, 'somebody-elses.tmp'), '');
    utimesSync(join(cacheFolder, 'somebody-elses.tmp'), old, old);
    chmodSync(pathOf(store), 0o600);
    truncateSync(pathOf(store), 0);
    await prepare();
    expect(cacheNames('.tmp')).toEqual(['somebody-elses.tmp']);
  });
});
