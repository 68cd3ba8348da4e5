// Shows that `npm test` notices faults: breaks the sources in one small way at a time (mutations.js) and runs the quick
// tests that should fail. The tests that a mutation names run first; the other tests related to its file run only if
// those pass.
//
//   npm run test:mutants             all of them, some minutes
//   npm run test:mutants -- lock     those whose name contains "lock"
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mutations } from './mutations.js';
import { Interruption, Sandbox } from './sandbox.js';

/** @typedef {import('./mutations.js').Mutation} Mutation */

/** Code that cannot run says nothing about the tests. */
const brokenCode = /^(?:Syntax|Type|Reference)Error/;

/**
 * @param {string} folder
 * @param {Mutation} mutation
 * @returns {string | undefined} why it cannot be tried
 */
function findStale(folder, { name, file, search, tests }) {
  const missing = [file, ...tests].find((path) => !existsSync(join(folder, path)));
  if (missing !== undefined) return `"${name}" names ${missing}, which is not a file of the quick tier.`;
  const count = readFileSync(join(folder, file), 'utf8').split(search).length - 1;
  if (count === 1) return undefined;
  return `"${name}" is stale: its search text occurs ${count} times in ${file}; 1 was expected.`;
}

/**
 * @param {Sandbox} sandbox
 * @param {Mutation} mutation
 * @returns {Promise<{ readonly isCaught: boolean, readonly text: string }>}
 */
async function tryMutation(sandbox, { file, search, replace, tests }) {
  const path = join(sandbox.folder, file);
  const source = readFileSync(path, 'utf8');
  const runBroken = async (/** @type {readonly string[]} */ words) => {
    writeFileSync(path, source.split(search).join(replace));
    const run = await sandbox.runTests(words);
    writeFileSync(path, source);
    return run;
  };
  const named = await runBroken(tests);
  const run = named.code === 0 ? await runBroken(['related', file]) : named;
  if (run.code === 0) return { isCaught: false, text: 'all related quick tests pass' };
  const { failed, output } = run;
  const message = failed?.failureMessages?.[0] ?? output.slice(-2000);
  if (failed === undefined || brokenCode.test(message))
    return { isCaught: false, text: `the code does not run: ${message}` };
  if (run === named) return { isCaught: true, text: failed.fullName };
  const control = await sandbox.runTests([failed.file]);
  const text = `${failed.fullName} in ${failed.file}, which the mutation does not name`;
  return { isCaught: control.code === 0, text: control.code === 0 ? text : `${text} and which always fails` };
}

/**
 * @param {Sandbox} sandbox
 * @param {readonly Mutation[]} chosen
 * @returns {Promise<number>} the exit code
 */
async function tryMutations(sandbox, chosen) {
  const stale = chosen.flatMap((mutation) => findStale(sandbox.folder, mutation) ?? []);
  if (stale.length > 0) return complain(stale.join('\n'));
  const named = [...new Set(chosen.flatMap(({ tests }) => tests))];
  const { code, failed, output } = await sandbox.runTests(named);
  if (code !== 0)
    return complain(`A test fails without a mutation: ${failed?.fullName ?? output.slice(-2000)}`);
  print(`Without a mutation, all tests of ${named.length} files pass.`);
  let caught = 0;
  for (const mutation of chosen) {
    const { isCaught, text } = await tryMutation(sandbox, mutation);
    caught += Number(isCaught);
    const layer = mutation.file.split('/')[1] ?? '';
    print(`${isCaught ? 'caught  ' : 'SURVIVED'}  ${layer.padEnd(10)}  ${mutation.name}: ${text}`);
  }
  print(`${caught} of ${chosen.length} mutants were caught by the quick tests.`);
  return caught === chosen.length ? 0 : 1;
}

/** @param {string} line */
function print(line) {
  process.stdout.write(`${line}\n`);
}

/** @param {string} message */
function complain(message) {
  process.stderr.write(`${message}\n`);
  return 2;
}

const wanted = process.argv.slice(2).join(' ').toLowerCase();
const chosen = mutations.filter(({ name }) => name.toLowerCase().includes(wanted));
if (chosen.length === 0) {
  const names = mutations.map(({ name }) => `  ${name}`).join('\n');
  process.exitCode = complain(`No mutation has "${wanted}" in its name. There are:\n${names}`);
} else {
  const sandbox = new Sandbox();
  try {
    sandbox.open();
    process.exitCode = await tryMutations(sandbox, chosen);
  } catch (failure) {
    if (!(failure instanceof Interruption)) throw failure;
    process.exitCode = failure.exitCode;
  } finally {
    sandbox.close();
  }
}
