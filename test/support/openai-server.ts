/** A server as it is published, transpiled, threads and all, and the official client for it. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import OpenAI from 'openai';
import type * as serve from '../../src/serve/serve.js';
import { bundledTarget } from '../../src/core/package-files.js';

export interface StartedServer {
  readonly server: serve.RunningServer;
  readonly client: OpenAI;
  /** One object a request. */
  readonly logged: Readonly<Record<string, unknown>>[];
  /** Settles with the next line of the log. */
  readonly nextLog: () => Promise<Readonly<Record<string, unknown>>>;
}

/** `build`: what transpileForTests made. */
export async function startTestServer(
  build: string,
  options: Partial<serve.ServeOptions> = {},
): Promise<StartedServer> {
  const module: unknown = await import(pathToFileURL(join(build, 'src/serve/serve.js')).href);
  const { startServer } = module as typeof serve;
  const logged: Readonly<Record<string, unknown>>[] = [];
  const waiting: ((line: Readonly<Record<string, unknown>>) => void)[] = [];
  const server = await startServer({
    ...{ target: bundledTarget, port: 0, threads: 1 },
    onLog: (text) => {
      const line = JSON.parse(text) as Readonly<Record<string, unknown>>;
      logged.push(line);
      for (const tell of waiting.splice(0)) tell(line);
    },
    ...options,
  });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none-needed', maxRetries: 0 });
  const nextLog = () => new Promise<Readonly<Record<string, unknown>>>((resolve) => waiting.push(resolve));
  return { server, client, logged, nextLog };
}
