/**
 * Which requests are watched. Every POST, PUT and PATCH is, unless its path is exactly one of those known not to generate:
 * a path that no list knows must not be a way around a measure.
 */
import { engines } from '../engines/engine-list.js';

export interface RouteMatch {
  /** A known generation route, in lower case; `other` for the rest. */
  readonly route: string;
  readonly isWatched: boolean;
}

const commonRoutes = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages'];

/** Longest first, so that a route wins over another that is its ending. */
const routes: readonly string[] = [
  ...new Set([...commonRoutes, ...engines.flatMap((engine) => engine.routes)]),
]
  .filter((route) => route !== '/')
  .sort((one, other) => other.length - one.length);

const harmless: ReadonlySet<string> = new Set([
  ...['/tokenize', '/detokenize', '/v1/tokenize', '/v1/detokenize', '/apply-template', '/chat_tokenize'],
  ...['/v1/embeddings', '/embeddings', '/embedding', '/embed', '/embed_all', '/embed_sparse', '/api/embed'],
  ...['/rerank', '/v1/rerank', '/v2/rerank', '/reranking', '/v1/reranking', '/score', '/v1/score'],
  ...['/pooling', '/classify', '/similarity', '/v1/moderations', '/v1/load_lora_adapter'],
  ...['/v1/unload_lora_adapter', '/lora-adapters'],
  ...['/v1/messages/count_tokens', '/v1/chat/completions/render'],
]);

const watchedMethods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
const maxCached = 256;
const cache = new Map<string, RouteMatch>();

/** @param path as in the request line, without the query */
export function matchRoute(method: string, path: string): RouteMatch {
  if (!watchedMethods.has(method)) return { route: 'other', isWatched: false };
  const known = cache.get(path);
  if (known !== undefined) return known;
  // Compared as written: a spelling that only we read as harmless may be a generation for the engine.
  const isWatched = !harmless.has(path);
  const normalized = normalizePath(path);
  const match = { route: routes.find((route) => normalized.endsWith(route)) ?? 'other', isWatched };
  if (cache.size >= maxCached) cache.clear(); // clients can invent paths
  cache.set(path, match);
  return match;
}

/** Decoded once, as servers do, in lower case, without empty and dot segments. */
export function normalizePath(path: string): string {
  const segments: string[] = [];
  for (const segment of decode(path).toLowerCase().split('/')) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  return `/${segments.join('/')}`;
}

function decode(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path);
  } catch {
    return path.replace(/%[\da-f]{2}/gi, (escape) =>
      String.fromCharCode(Number.parseInt(escape.slice(1), 16)),
    );
  }
}
