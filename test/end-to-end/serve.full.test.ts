/** The server under load. */
import { afterAll, beforeAll, it } from 'vitest';
import type { StartedServer } from '../support/openai-server.js';
import { startTestServer } from '../support/openai-server.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { expectPlainAnswers, expectSameStreams, long, sky } from './served-answers.js';

const { folder: build } = transpileForTests('serve');
const drafters = ['eagle3', 'sps', 'ngram'];
let started: StartedServer;
beforeAll(async () => {
  started = await startTestServer(build, {
    ...{ drafters: Object.fromEntries(drafters.map((name) => [name, name])), draft: 'chain:4' },
    concurrency: 16,
  });
});
afterAll(() => started.server.close());

it('64 streams are token for token what each is alone', () => expectSameStreams(started, 64));

it('gives the answers of plain decoding with drafters, several at once and several to one prompt', () =>
  expectPlainAnswers(started, [sky, long, 'Count: one two one two one two'], drafters));
