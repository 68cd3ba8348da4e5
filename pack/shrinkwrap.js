// The lock file that travels with the package. package-lock.json stays at home; npm-shrinkwrap.json is obeyed by npm when
// it installs the package from npmjs.org, so that its users get the versions and checksums that were tested here. npm runs
// an install script only of packages that such a file marks, and none is marked: ONNX Runtime's script fetches CUDA
// libraries that nothing here uses, without a checksum, and fails where it cannot reach them.
// Written when the package is packed, removed behind it: where it stands, npm no longer looks at package-lock.json.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {{ readonly devDependencies?: unknown, readonly integrity?: string, readonly dev?: boolean, readonly devOptional?: boolean, readonly hasInstallScript?: boolean }} LockedPackage
 * @typedef {{ readonly name: string, readonly version: string, readonly lockfileVersion: number, readonly packages: Readonly<Record<string, LockedPackage>> }} LockFile
 */

/**
 * Without what only development needs: npm would install that as well.
 * @param {LockFile} lock
 * @returns {LockFile}
 */
export function createShrinkwrap(lock) {
  const kept = Object.entries(lock.packages).filter(
    ([, entry]) => !(entry.dev ?? entry.devOptional ?? false),
  );
  const scripted = kept.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path);
  if (scripted.length > 0)
    throw new Error(`package-lock.json marks install scripts of ${scripted.join(', ')}.`);
  /** @type {Record<string, LockedPackage>} */
  const packages = {};
  for (const [path, entry] of kept)
    packages[path] = path === '' ? { ...entry, devDependencies: undefined } : entry;
  return { ...lock, packages };
}

const root = new URL('../', import.meta.url);

function readLock() {
  /** @type {unknown} */
  const lock = JSON.parse(readFileSync(new URL('package-lock.json', root), 'utf8'));
  return /** @type {LockFile} */ (lock);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = `${JSON.stringify(createShrinkwrap(readLock()), undefined, 2)}\n`;
  writeFileSync(new URL('npm-shrinkwrap.json', root), text);
}
