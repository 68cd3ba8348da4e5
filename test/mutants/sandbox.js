// A copy of the work tree in which sources can be broken, and Vitest runs there. Nothing of it remains at the end, not
// even what tests write before they are killed.
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'; // prettier-ignore
import { constants, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';

/**
 * @typedef {{ readonly status: string, readonly fullName: string, readonly failureMessages: readonly string[] | null }} TestResult
 * @typedef {{ readonly testResults: readonly { readonly name: string, readonly assertionResults: readonly TestResult[] }[] }} Report
 *
 * @typedef {object} TestRun
 * @property {number} code the exit code
 * @property {(TestResult & { readonly file: string }) | undefined} failed the first test that failed
 * @property {string} output
 */

const root = resolve(import.meta.dirname, '../..');
const copied = new Set(['src', 'test']); // folders; others are linked
const notNeeded = new Set(['.git', 'dist', 'out']);
/** The full tier is not run here, and a concurrent `npm run test:full` must not find its files in the copy. */
const isQuick = (/** @type {string} */ path) => !path.endsWith('.full.test.ts');

export class Interruption extends Error {
  /** @param {NodeJS.Signals} signal */
  constructor(signal) {
    super(`Interrupted by ${signal}.`);
    this.exitCode = 128 + constants.signals[signal]; // as shells have it
  }
}

export class Sandbox {
  /** The work tree as it is now, uncommitted changes included. */
  folder = '';
  /** Outside the copy: commands print paths below the current folder without that folder. */
  #temporary = '';
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** @type {NodeJS.Signals | undefined} */
  #interruption;

  open() {
    for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
      process.on(signal, () => {
        this.#kill(this.#interruption === undefined ? signal : 'SIGKILL');
        this.#interruption = signal;
      });
    }
    this.#temporary = mkdtempSync(join(tmpdir(), 'mistletoe-mutants-'));
    chmodSync(this.#temporary, 0o711); // some tests start processes of other users
    mkdirSync(join(root, 'out'), { recursive: true });
    this.folder = mkdtempSync(join(root, 'out', 'mutants-'));
    for (const entry of readdirSync(root, { withFileTypes: true })) {
      if (notNeeded.has(entry.name)) continue;
      const [from, to] = [join(root, entry.name), join(this.folder, entry.name)];
      if (entry.isFile() || copied.has(entry.name)) cpSync(from, to, { recursive: true, filter: isQuick });
      else symlinkSync(from, to);
    }
  }

  close() {
    for (const folder of [this.folder, this.#temporary])
      if (folder !== '') rmSync(folder, { recursive: true, force: true });
  }

  /**
   * Runs quick tests up to the first failure.
   * @param {readonly string[]} words of Vitest's command line
   * @returns {Promise<TestRun>}
   */
  async runTests(words) {
    this.#throwIfInterrupted();
    const report = join(this.#temporary, 'report.json');
    const vitest = join(this.folder, 'node_modules/vitest/vitest.mjs');
    const options = ['--run', '--project=quick', '--bail=1', '--sequence.shuffle=false', '--no-cache'];
    const reporters = ['--reporter=json', `--outputFile=${report}`];
    const child = spawn(process.execPath, [vitest, ...words, ...options, ...reporters], {
      cwd: this.folder,
      detached: true, // a process group with its workers: a signal reaches all of them, once
      env: { ...process.env, NO_COLOR: '1', TMPDIR: this.#temporary },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => (output += text));
    /** @type {number | null} */
    const code = await new Promise((settle) => child.on('close', settle));
    this.#kill('SIGKILL'); // workers that outlived it
    this.#child = undefined;
    this.#throwIfInterrupted();
    const failed = existsSync(report) ? this.#findFailure(report) : undefined;
    rmSync(report, { force: true });
    return { code: code ?? 1, failed, output };
  }

  /** @param {string} report */
  #findFailure(report) {
    /** @type {unknown} */
    const parsed = JSON.parse(readFileSync(report, 'utf8'));
    for (const { name, assertionResults } of /** @type {Report} */ (parsed).testResults) {
      const failed = assertionResults.find(({ status }) => status === 'failed');
      if (failed !== undefined) return { ...failed, file: relative(this.folder, name) };
    }
    return undefined;
  }

  #throwIfInterrupted() {
    if (this.#interruption !== undefined) throw new Interruption(this.#interruption);
  }

  /** @param {NodeJS.Signals} signal */
  #kill(signal) {
    if (this.#child?.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, signal);
    } catch {
      // The whole group has ended.
    }
  }
}
