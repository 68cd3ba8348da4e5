/**
 * Installing needs nothing but the registry. ONNX Runtime's install script downloads CUDA libraries that we do not use,
 * and fails where it cannot. npm 11 asks allowScripts whether to run it; older ones run what the lock file marks with
 * hasInstallScript, so that mark is taken out by hand and must not come back with an update.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly allowScripts: Readonly<Record<string, boolean>>;
}

interface LockFile {
  readonly name: string;
  readonly version: string;
  readonly packages: Readonly<Record<string, { readonly hasInstallScript?: boolean }>>;
}

const read = (name: string): string => readFileSync(resolve(import.meta.dirname, '..', name), 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;
const lock = JSON.parse(read('package-lock.json')) as LockFile;

describe('the package', () => {
  it('runs no install script of ONNX Runtime', () => {
    expect(lock.packages['node_modules/onnxruntime-node']).toBeDefined();
    expect(lock.packages['node_modules/onnxruntime-node']).not.toHaveProperty('hasInstallScript');
    expect(manifest.allowScripts['onnxruntime-node']).toBe(false);
  });

  it('says of every other install script whether it may run', () => {
    const scripted = Object.entries(lock.packages).filter(([, { hasInstallScript }]) => hasInstallScript);
    const names = scripted.map(([path]) => path.replace(/^.*node_modules\//, ''));
    expect(names.filter((name) => !Object.hasOwn(manifest.allowScripts, name))).toEqual([]);
  });

  it('has one name and one version', () => {
    expect([lock.name, lock.version]).toEqual([manifest.name, manifest.version]);
    const imported = [...read('src/index.ts').matchAll(/^ \* import .* from '(.*)';$/gm)];
    expect(imported.map(([, name]) => name)).toEqual(imported.map(() => manifest.name));
    expect(imported.length).toBeGreaterThan(0);
  });
});
