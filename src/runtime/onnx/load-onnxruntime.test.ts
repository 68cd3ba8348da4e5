/**
 * Nothing leaves the machine. The native library starts to report with the first session and keeps what it has not sent
 * in the home folder, so each case runs in a process of its own with a fresh home and looks there too.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-load-'));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const root = resolve(import.meta.dirname, '../../..');
const urlOf = (name: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, name)));
let cases = 0;

/** What the script printed as JSON, and what it left in its home. */
function runAlone(script: string, variables: Readonly<Record<string, string>> = {}) {
  const home = join(folder, `home-${cases}`);
  const file = join(folder, `case-${cases++}.mjs`);
  mkdirSync(home);
  writeFileSync(file, script);
  const inherited = { ...process.env };
  delete inherited.ORT_DISABLE_TELEMETRY;
  delete inherited.XDG_CACHE_HOME;
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], {
    env: { ...inherited, HOME: home, USERPROFILE: home, LOCALAPPDATA: home, ...variables },
    encoding: 'utf8',
  });
  expect(status, stderr).toBe(0);
  return { printed: JSON.parse(stdout) as unknown, left: readdirSync(home) };
}

const watchNativeLoads = `
  const loads = [];
  const dlopen = process.dlopen;
  process.dlopen = (...given) => {
    loads.push(process.env.ORT_DISABLE_TELEMETRY ?? 'unset');
    return dlopen.apply(process, given);
  };`;

describe('ONNX Runtime', () => {
  it('is told to send nothing before it loads', () => {
    const { printed, left } = runAlone(`${watchNativeLoads}
      const { loadOnnxRuntime } = await import(${urlOf('load-onnxruntime.js')});
      const before = loads.length;
      const ort = loadOnnxRuntime();
      await ort.InferenceSession.create(Uint8Array.of(1, 2, 3)).catch(() => {});
      console.log(JSON.stringify({ before, loads }));`);
    expect(printed).toEqual({ before: 0, loads: ['1'] });
    expect(left).toEqual([]);
  });

  it('is told so too where its library is called without the package', () => {
    const { printed } = runAlone(
      `const { findOnnxRuntimeLibrary } = await import(${urlOf('load-onnxruntime.js')});
       const path = findOnnxRuntimeLibrary();
       console.log(JSON.stringify([typeof path, process.env.ORT_DISABLE_TELEMETRY]));`,
    );
    expect(printed).toEqual([process.platform === 'linux' ? 'string' : 'undefined', '1']);
  });

  it('keeps the choice of the user', () => {
    const { printed } = runAlone(
      `const { disableTelemetry } = await import(${urlOf('load-onnxruntime.js')});
       disableTelemetry();
       console.log(JSON.stringify(process.env.ORT_DISABLE_TELEMETRY));`,
      { ORT_DISABLE_TELEMETRY: '0' },
    );
    expect(printed).toBe('0');
  });

  const loadInWorker = (options: string): string => `
    import { SHARE_ENV, Worker } from 'node:worker_threads';
    const script = ${JSON.stringify(`import(${urlOf('load-onnxruntime.js')}).then(({ loadOnnxRuntime }) =>
      loadOnnxRuntime().InferenceSession.create(Uint8Array.of(1, 2, 3)))`)};
    const worker = new Worker(script, { eval: true, ...${options} });
    const error = await new Promise((resolve) => worker.once('error', resolve));
    console.log(JSON.stringify(String(error)));`;

  it('does not load in a worker that cannot tell it', () => {
    const { printed, left } = runAlone(loadInWorker('{}'));
    expect(printed).toMatch(/ORT_DISABLE_TELEMETRY=1 for the process/);
    expect(left).toEqual([]);
  });

  it('loads in a worker that shares the environment', () => {
    const { printed, left } = runAlone(loadInWorker('{ env: SHARE_ENV }'));
    expect(printed).toMatch(/protobuf parsing failed/);
    expect(left).toEqual([]);
  });
});

describe('the sources', () => {
  it('reach onnxruntime-node through one file', () => {
    const files = ['src', 'bench', 'test', 'examples'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
        join(folder, name),
      ),
    );
    const loading = files.filter((name) => {
      if (!/\.[cm]?[jt]s$/.test(name)) return false;
      const text = readFileSync(join(root, name), 'utf8');
      const code = text.replace(/\/\*[^]*?\*\/|\/\/.*|import type [^;]*;/g, '');
      return /\b(from|import|require)\s*\(?\s*['"`]onnxruntime-/.test(code);
    });
    expect(loading).toEqual([relative(root, join(import.meta.dirname, 'load-onnxruntime.js'))]);
  });
});
