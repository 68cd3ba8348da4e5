/**
 * Installing needs nothing but the registry. ONNX Runtime's install script downloads CUDA libraries that we do not use,
 * and fails where it cannot. npm 11 asks allowScripts whether to run it; older ones run what the lock file marks with
 * hasInstallScript, so that mark is taken out by hand and must not come back with an update. Users of the package have
 * neither file: what reaches them is the npm-shrinkwrap.json that is packed with it.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createShrinkwrap } from '../pack/shrinkwrap.js';

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  readonly allowScripts: Readonly<Record<string, boolean>>;
}

interface LockFile {
  readonly name: string;
  readonly version: string;
  readonly lockfileVersion: number;
  readonly packages: Readonly<
    Record<
      string,
      { readonly hasInstallScript?: boolean; readonly integrity?: string; readonly dev?: boolean }
    >
  >;
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

  it('brings along the versions and checksums of what it needs, and marks no install script', () => {
    const { packages, ...rest } = createShrinkwrap(lock);
    const { '': root, ...needed } = packages;
    expect(rest).toEqual({ name: lock.name, version: lock.version, lockfileVersion: 3, requires: true });
    expect(root).toMatchObject({ dependencies: manifest.dependencies, devDependencies: undefined });
    for (const name of Object.keys(manifest.dependencies))
      expect(needed).toHaveProperty([`node_modules/${name}`]);
    expect(Object.keys(needed).some((path) => /node_modules\/(esbuild|vitest|typescript)$/.test(path))).toBe(
      false,
    );
    for (const entry of Object.values(needed)) {
      expect(entry).not.toHaveProperty('hasInstallScript');
      expect(entry.integrity).toMatch(/^sha512-/);
    }
    expect(manifest.files).toContain('npm-shrinkwrap.json');
  });

  it('is not packed while a dependency asks for an install script', () => {
    const marked = { ...lock.packages, 'node_modules/onnxruntime-node': { hasInstallScript: true } };
    expect(() => createShrinkwrap({ ...lock, packages: marked })).toThrow('node_modules/onnxruntime-node');
  });

  it('is installed from a tarball wherever an installation is described: it is not on the registry', () => {
    const tarball = `${manifest.name.replace('@', '').replace('/', '-')}-*.tgz`;
    const places = ['README.md', 'docs/library.md', 'docs/limits.md'];
    for (const place of [...places, 'examples/guard/Dockerfile', 'examples/fleet/Dockerfile']) {
      const text = read(place);
      expect(text, place).toContain(tarball);
      expect(text, place).toContain('npm pack');
      expect(text, place).not.toMatch(/(npm (i|install)|npx)\b.*@mistletoe-ai\/mistletoe/);
    }
  });

  it('has one name and one version', () => {
    expect([lock.name, lock.version]).toEqual([manifest.name, manifest.version]);
    const imported = [...read('src/index.ts').matchAll(/^ \* import .* from '(.*)';$/gm)];
    expect(imported.map(([, name]) => name)).toEqual(imported.map(() => manifest.name));
    expect(imported.length).toBeGreaterThan(0);
  });
});
