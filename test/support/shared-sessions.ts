/**
 * Keeps the CPU sessions of small models for the life of a test process, because test files compile the same graphs again:
 * without this, tests with models take an eighth more CPU time. A session is a pure function of its model, weights and
 * options, so tests can share it. Import this module for its effect.
 */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { sessionFactory, type SessionRequest } from '../../src/runtime/onnx/create-session.js';
import type { Session } from '../../src/runtime/onnx/session.js';
import { mappingFrom } from '../../src/runtime/onnx/weight-placement.js';

const maxSessions = 400;
const maxBytes = 400e6;
/** Smaller weights are copied, so that a test that damages its cache file does not change a shared session. */
const maxCopiedBytes = 4e6;

interface SharedSession {
  readonly creating: Promise<Session>;
  readonly sizeBytes: number;
  users: number;
}

const mappedFolder = Object.keys(mappingFrom(''))[0]!;

const shared = new Map<string, SharedSession>(); // least recently used first
const { create } = sessionFactory;

let isSharing = true;

/** For suites about the files that sessions are made of. */
export function useOwnSessions(): void {
  beforeAll(() => void (isSharing = false));
  afterAll(() => void (isSharing = true));
}

sessionFactory.create = async (model, given) => {
  if (!isSharing) return create(model, given);
  // Each test process has about one core, and threads that wait for each other on it burn more than they gain.
  const request = { ...given, threads: 1 };
  const wanted = describeSession(model, request);
  if (wanted === undefined) return create(model, request);
  const { key, sizeBytes } = wanted;
  const found = shared.get(key) ?? { creating: wanted.create(), sizeBytes, users: 0 };
  found.users += 1;
  shared.delete(key);
  shared.set(key, found);
  try {
    return borrow(await found.creating, found);
  } catch (cause) {
    shared.delete(key);
    throw cause;
  } finally {
    await evict();
  }
};

/** The session of one user, who releases it without ending it for the others. */
function borrow(session: Session, entry: SharedSession): Session {
  let isReleased = false;
  return {
    run: (inputs, outputs) => session.run(inputs, outputs),
    recycle: (values) => session.recycle?.(values),
    release() {
      if (!isReleased) entry.users -= 1;
      isReleased = true;
      return Promise.resolve();
    },
  };
}

async function evict(): Promise<void> {
  let sizeBytes = [...shared.values()].reduce((sum, entry) => sum + entry.sizeBytes, 0);
  for (const [key, entry] of shared) {
    if (shared.size <= maxSessions && sizeBytes <= maxBytes) return;
    if (entry.users > 0) continue;
    shared.delete(key);
    sizeBytes -= entry.sizeBytes;
    await (await entry.creating).release();
  }
}

interface WantedSession {
  readonly key: string;
  readonly sizeBytes: number;
  readonly create: () => Promise<Session>;
}

/** Undefined where the session is not shared. */
function describeSession(model: Uint8Array, request: SessionRequest): WantedSession | undefined {
  if (request.externalData !== undefined) return undefined;
  const { [mappedFolder]: folder, ...configuration } = request.configuration;
  const unmapped = { ...request, configuration };
  const hash = createHash('sha256').update(model).update(JSON.stringify(unmapped));
  const files = folder === undefined ? [] : listWeightFiles(folder, model);
  // These weights have names that are not recognized.
  if (folder !== undefined && files.length === 0) return undefined;
  const sizeBytes = files.reduce((sum, path) => sum + statSync(path).size, model.byteLength);
  if (sizeBytes > maxBytes) return undefined;
  if (sizeBytes > maxCopiedBytes) {
    for (const path of files) hash.update(identifyFile(path));
    return { key: hash.digest('hex'), sizeBytes, create: () => create(model, request) };
  }
  const externalData = files.map((path) => ({ path: basename(path), data: readFileSync(path) }));
  for (const { data } of externalData) hash.update(data);
  const withData = externalData.length === 0 ? unmapped : { ...unmapped, externalData };
  return { key: hash.digest('hex'), sizeBytes, create: () => create(model, withData) };
}

/** Weight files are named by hash, and the model names those that it maps. */
function listWeightFiles(folder: string, bytes: Uint8Array): readonly string[] {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const names = new Set(Array.from(text.matchAll(/[0-9a-f]{64}\.weights/g), ([name]) => name));
  return [...names].map((name) => join(folder, name));
}

function identifyFile(path: string): string {
  const { dev, ino, size, ctimeMs } = statSync(path); // a test may set mtime back
  return [path, dev, ino, size, ctimeMs].join('\0');
}
