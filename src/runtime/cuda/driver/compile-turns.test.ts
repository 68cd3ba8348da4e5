import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { transpileForTests } from '../../../../test/support/transpiled-sources.js';
import { shareCompileTurns } from './compile-turns.js';

const { folder } = transpileForTests('compile-turns');
const compiler = pathToFileURL(join(folder, 'src/runtime/cuda/driver/kernel-compiler.js')).href;

/** A compilation ends once all threads have asked for the kernel. */
const program = `
const { workerData: { store, counts, threads } } = require('node:worker_threads');
import(${JSON.stringify(compiler)}).then(({ KernelStore }) => {
  const kernels = new KernelStore(store);
  Atomics.add(counts, 0, 1);
  Atomics.notify(counts, 0);
  kernels.find('sm_90', 'source', () => {
    Atomics.add(counts, 1, 1);
    for (let asked; (asked = Atomics.load(counts, 0)) < threads;) Atomics.wait(counts, 0, asked);
    return Buffer.from('code');
  });
});`;

it('lets one of several threads compile a kernel that all of them need', async () => {
  shareCompileTurns();
  const threads = 4;
  const counts = new Int32Array(new SharedArrayBuffer(8));
  const workerData = { store: join(folder, 'kernels'), counts, threads };
  const started = Array.from({ length: threads }, () => new Worker(program, { eval: true, workerData }));
  const codes = await Promise.all(started.map((thread) => once(thread, 'exit')));
  expect(codes.flat()).toEqual([0, 0, 0, 0]);
  expect([...counts]).toEqual([threads, 1]);
});
