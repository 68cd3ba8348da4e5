import { expect, it } from 'vitest';
import { createOtlpExporter } from './opentelemetry.js';

it('sends batches of log records, and drops them where the receiver fails', async () => {
  const requests: { url: string; body: unknown }[] = [];
  const notices: string[] = [];
  let status = 200;
  const exporter = createOtlpExporter({
    endpoint: 'http://127.0.0.1:4318/',
    version: '1',
    fetch: (url, init) => {
      requests.push({ url: url as string, body: JSON.parse(init?.body as string) });
      return Promise.resolve(new Response('{}', { status }));
    },
    onNotice: (message) => notices.push(message),
  });
  exporter.add(
    'alert',
    { 'mistletoe.tenant': 'a', 'mistletoe.alert.count': 3, 'mistletoe.alert.probability': 0.5 },
    'text',
  );
  await exporter.flush();
  expect(requests).toMatchObject([
    {
      url: 'http://127.0.0.1:4318/v1/logs',
      body: {
        resourceLogs: [
          {
            scopeLogs: [
              {
                logRecords: [
                  {
                    severityText: 'WARN',
                    eventName: 'mistletoe.alert',
                    body: { stringValue: 'text' },
                    attributes: [
                      { key: 'mistletoe.tenant', value: { stringValue: 'a' } },
                      { key: 'mistletoe.alert.count', value: { intValue: '3' } },
                      { key: 'mistletoe.alert.probability', value: { doubleValue: 0.5 } },
                    ],
                  },
                ],
              },
            ],
          },
        ],
      },
    },
  ]);
  status = 503;
  for (let round = 0; round < 2; round++) {
    exporter.add('request-end', {}, 'text');
    await exporter.flush();
  }
  for (let record = 0; record < 3000; record++) exporter.add('request-end', {}, 'text');
  expect([exporter.dropped, notices.length]).toEqual([2 + 3000 - 2048, 1]);
  await exporter.close();
});
