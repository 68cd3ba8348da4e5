import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../../core/errors.js';
import type { Places } from './find-devices.js';
import {
  compilerLibrary,
  driverLibrary,
  libraryCandidates,
  openLibrary,
  productLibrary,
} from './find-devices.js';
import { fakeLibrary } from '../../../../test/support/runtime/cuda/fake-library.js';

describe('the search for libraries', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'mistletoe-libraries-'));
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });

  const put = (path: string): string => {
    const full = join(root, path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, '');
    return full;
  };
  const places = (environment: Record<string, string> = {}): Places => ({
    environment,
    root,
    home: join(root, 'home/user'),
  });

  it("asks the system's loader first, then the folders that the user names, then the usual ones", () => {
    const packaged = put('usr/lib/x86_64-linux-gnu/libx.so.13');
    const toolkit = put('usr/local/cuda-13.1/lib64/libx.so.13');
    const older = put('usr/local/cuda-13.0/targets/x86_64-linux/lib/libx.so.13');
    const named = put('elsewhere/libx.so.13');
    put('usr/local/cuda-13.1/lib64/libother.so.13');
    expect(libraryCandidates(['libx.so.13'], places({ LD_LIBRARY_PATH: `/none:${dirname(named)}` }))).toEqual(
      ['libx.so.13', named, toolkit, older, packaged],
    );
  });

  it('tries all places for the newer version before the older one', () => {
    const older = put('usr/local/cuda/lib64/libx.so.12');
    const newer = put('usr/lib/aarch64-linux-gnu/libx.so.13');
    const names = ['libx.so.13', 'libx.so.12'];
    expect(libraryCandidates(names, places())).toEqual(['libx.so.13', newer, 'libx.so.12', older]);
  });

  it.each([
    'usr/local/lib/python3.12/dist-packages/nvidia/cublas/lib/libx.so.13',
    'usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libx.so.13',
    'opt/conda/lib/python3.11/site-packages/nvidia/cu13/lib/libx.so.13',
    'home/user/.local/lib/python3.10/site-packages/nvidia/cu13/lib/libx.so.13',
    'work/environment/lib/python3.12/site-packages/nvidia/cu13/lib/libx.so.13',
  ])('looks into Python: %s', (path) => {
    const environment = { VIRTUAL_ENV: join(root, 'work/environment') };
    const full = put(path);
    expect(libraryCandidates(['libx.so.13'], places(environment))).toEqual(['libx.so.13', full]);
  });

  it('takes the first that loads', () => {
    const broken = put('usr/local/cuda/lib64/libcuda.so.1');
    const whole = put('usr/lib64/libcuda.so.1');
    const tried: string[] = [];
    const open = (path: string): ReturnType<typeof fakeLibrary> => {
      tried.push(path);
      if (path !== whole) throw new Error('wrong ELF class');
      return fakeLibrary({});
    };
    openLibrary({ open }, driverLibrary, places());
    expect(tried).toEqual(['libcuda.so.1', broken, whole]);
  });

  const failing = (): never => {
    throw new Error('wrong ELF class');
  };

  it('says which is missing, where it was looked for and what to install', () => {
    const act = (): unknown => openLibrary({ open: failing }, compilerLibrary(13), places());
    expect(act).toThrow(MistletoeError);
    expect(act).toThrow(
      /NVRTC, is missing: libnvrtc\.so\.13 or libnvrtc\.so\.12, looked for .*LD_LIBRARY_PATH/,
    );
    expect(compilerLibrary(13).hint).toContain('pip install nvidia-cuda-nvrtc"');
  });

  it('says why one that lies there did not load', () => {
    const path = put('usr/lib64/libcublasLt.so.12');
    const act = (): unknown => openLibrary({ open: failing }, productLibrary(13), places());
    expect(act).toThrow(`found but not loaded: ${path} (wrong ELF class)`);
  });

  it('leaves out libraries that are newer than the driver', () => {
    expect(productLibrary(12).names).toEqual(['libcublasLt.so.12']);
    expect(productLibrary(12).hint).toContain('nvidia-cublas-cu12');
    expect(productLibrary(14).names).toEqual(['libcublasLt.so.13', 'libcublasLt.so.12']);
  });
});
