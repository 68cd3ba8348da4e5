/** A worker of audits, a process or a thread. */
import { serveUnits } from '../../runs/unit.js';
import { AuditWorker, type WorkerSetup } from './audit-worker.js';

serveUnits((setup, onNotice) => new AuditWorker(setup as WorkerSetup, { onNotice }));
