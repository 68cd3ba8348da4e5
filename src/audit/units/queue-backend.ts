/** An audit on the workers of a queue: the submitter opens no models. */
import { createHash } from 'node:crypto';
import { MistletoeError } from '../../core/errors.js';
import { asSaved } from '../../runs/resumed-run.js';
import { deviceOf } from '../../runs/run-device.js';
import { parseQueueUrl, QueueConnection } from '../../runs/queue/queue-connection.js';
import { QueueExecutor } from '../../runs/queue/queue-executor.js';
import type { RunNotice } from '../../runs/queue/queue-messages.js';
import { type AuditRequest, requestSchema } from '../audit-request.js';
import { type AuditUnitInput, policySchema } from './audit-unit.js';
import type { AuditBackend, BackendOptions } from './run-units.js';

export async function openQueue(
  request: AuditRequest,
  url: string,
  { onNotice }: Pick<BackendOptions, 'onNotice'>,
): Promise<AuditBackend> {
  refuseTreeFiles(request);
  const connection = await QueueConnection.open(parseQueueUrl(url), onNotice);
  const executor = new QueueExecutor<AuditUnitInput>(connection, {
    queue: nameQueue(request),
    notice: describeNeeds(request),
    onNotice,
  });
  return {
    executor,
    effort: null,
    label: 'workers of a queue',
    finish: () => executor.finish(),
    async close() {
      await executor.close();
      connection.close();
    },
  };
}

/** The same for a resumed run, so that it finds its units. */
function nameQueue(request: AuditRequest): string {
  const saved = JSON.stringify(asSaved(requestSchema, request));
  return `mistletoe-${createHash('sha256').update(saved).digest('hex').slice(0, 16)}`;
}

function describeNeeds(request: AuditRequest): RunNotice {
  const device = deviceOf(request);
  return {
    schema: 'mistletoe.run/1',
    command: 'audit',
    version: request.version,
    models: [request.target, ...request.drafters].map(({ name, sha256 }) => ({ name, sha256 })),
    device: { kind: device.kind, dtype: device.dtype, name: device.kind === 'cuda' ? device.name : '' },
  };
}

/** A worker on another machine does not have the file. */
function refuseTreeFiles({ drafters }: AuditRequest): void {
  const own = drafters.find(({ policy }) => !policySchema.safeParse(policy).success);
  if (own === undefined) return;
  throw new MistletoeError('usage', `The draft policy of ${own.id} is ${own.policy}, which names a file.`, {
    hint: 'With --queue, use a chain, a dynamic tree or a tree by its name.',
  });
}
