import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import './shared-sessions.js';

export const referenceModels = resolve(import.meta.dirname, '../../models/reference');
export const referenceTarget = join(referenceModels, 'target');

/** One weight cache for the bundled models in a run of the tests: converting them takes a second. */
export const bundledCache = join(tmpdir(), 'bundled-weights');

/** Contents of a file of the copy; undefined leaves the file out. */
export type FolderChanges = Readonly<Record<string, string | Uint8Array | object | undefined>>;

/** The bundled target at `path` with some files changed; the others are links. */
export function writeChangedTarget(path: string, changes: FolderChanges): string {
  mkdirSync(path, { recursive: true });
  for (const name of readdirSync(referenceTarget)) {
    if (!Object.hasOwn(changes, name)) symlinkSync(join(referenceTarget, name), join(path, name));
  }
  for (const [name, contents] of Object.entries(changes)) {
    if (contents === undefined) continue;
    const isRaw = typeof contents === 'string' || contents instanceof Uint8Array;
    writeFileSync(join(path, name), isRaw ? contents : JSON.stringify(contents));
  }
  return path;
}
