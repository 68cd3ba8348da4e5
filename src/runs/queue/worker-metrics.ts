/** Prometheus metrics of a worker: its units, and the jobs of the runs that are open. */
import type { QueueConnection } from './queue-connection.js';

const states = ['waiting', 'active', 'delayed', 'completed', 'failed'] as const;

export class WorkerMetrics {
  private readonly units = { completed: 0, failed: 0 };

  constructor(private readonly connection: QueueConnection) {}

  count(outcome: 'completed' | 'failed'): void {
    this.units[outcome] += 1;
  }

  async render(): Promise<string> {
    const lines = [
      '# HELP mistletoe_worker_units_total Units that this worker ran.',
      '# TYPE mistletoe_worker_units_total counter',
      ...Object.entries(this.units).map(
        ([outcome, count]) => `mistletoe_worker_units_total{outcome="${outcome}"} ${count}`,
      ),
      '# HELP mistletoe_queue_units Units of open runs in the queue.',
      '# TYPE mistletoe_queue_units gauge',
    ];
    const { bull, client } = this.connection;
    for (const { queue } of await this.connection.listRuns()) {
      const handle = new bull.Queue(queue, { connection: client, skipMetasUpdate: true });
      handle.on('error', () => undefined);
      try {
        const counts = await handle.getJobCounts(...states);
        for (const state of states)
          lines.push(`mistletoe_queue_units{run="${queue}",state="${state}"} ${counts[state] ?? 0}`);
      } finally {
        await handle.close();
      }
    }
    return `${lines.join('\n')}\n`;
  }
}
