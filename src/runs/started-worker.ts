/**
 * What a pool starts: a process, whose crash leaves this one alone, or a thread of this process. Threads share the context
 * of a GPU, so their kernels run side by side; processes take turns unless NVIDIA MPS runs.
 */
import { fork } from 'node:child_process';
import type { Readable } from 'node:stream';
import { Worker } from 'node:worker_threads';
import { shareCompileTurns } from '../runtime/cuda/driver/compile-turns.js';
import { disableTelemetry } from '../runtime/onnx/load-onnxruntime.js';
import type { PoolMessage, WorkerMessage } from './unit.js';

export interface StartedWorker {
  readonly pid: number | null;
  send(message: PoolMessage): void;
  /** Resolves once it has ended. */
  kill(): Promise<void>;
}

export interface WorkerEvents {
  readonly onMessage: (message: WorkerMessage) => void;
  readonly onEnd: (reason: string) => void;
}

/** People and programs can see in the environment what this process was given; workers need none of it. */
const secretNames = /token|key|secret|password|credential|proxy|_queue$|^node_options$/i;
/** An address with a user or password. */
const secretAddress = /:\/\/[^/\s]*@/;
const maxErrorOutput = 2000;
/** A thread frees its memory on the GPU when it is closed. One that takes longer is ended, and the memory is lost. */
const closingMs = 10_000;

export function startProcess(program: string, { onMessage, onEnd }: WorkerEvents): StartedWorker {
  const child = fork(program, [], {
    execArgv: [],
    env: publicEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const readErrors = keepEnd(child.stderr!);
  const fail = (cause: Error): void => {
    onEnd(`the worker cannot be reached: ${cause.message}`);
  };
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve();
      onEnd(describeEnd(signal ?? `code ${code ?? 0}`, readErrors()));
    });
    child.on('error', (cause) => {
      resolve();
      fail(cause);
    });
  });
  child.on('message', onMessage);
  return {
    pid: child.pid ?? null,
    send(message) {
      child.send(message, (cause) => {
        // The exit says more than a broken pipe, and follows it.
        if (cause !== null && child.connected) fail(cause);
      });
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

export function startThread(program: string, { onMessage, onEnd }: WorkerEvents): StartedWorker {
  disableTelemetry(); // from the thread it would be too late
  shareCompileTurns();
  const thread = new Worker(program, {
    execArgv: [],
    env: publicEnvironment(),
    stdout: true,
    stderr: true,
  });
  thread.stdout.resume();
  const readErrors = keepEnd(thread.stderr);
  let thrown = '';
  thread.on('error', ({ message }) => {
    thrown = message;
  });
  const ended = new Promise<void>((resolve) => {
    thread.once('exit', (code) => {
      resolve();
      onEnd(describeEnd(`code ${code}`, `${readErrors()}\n${thrown}`));
    });
  });
  // As text, so that a unit gets what a process would get.
  thread.on('message', (text: string) => {
    onMessage(JSON.parse(text) as WorkerMessage);
  });
  const send = (message: PoolMessage): void => {
    thread.postMessage(JSON.stringify(message));
  };
  return {
    pid: process.pid,
    send,
    async kill() {
      send({ kind: 'close' });
      const timer = setTimeout(() => void thread.terminate(), closingMs);
      await ended;
      clearTimeout(timer);
    },
  };
}

function publicEnvironment(): NodeJS.ProcessEnv {
  const isPublic = ([name, value = '']: readonly [string, string | undefined]): boolean =>
    !secretNames.test(name) && !secretAddress.test(value);
  return Object.fromEntries(Object.entries(process.env).filter(isPublic));
}

function keepEnd(stream: Readable): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (more: string) => {
    text = `${text}${more}`.slice(-maxErrorOutput);
  });
  return () => text;
}

function describeEnd(end: string, errors: string): string {
  const said = errors.trim();
  return `the worker ended with ${end}${said === '' ? '' : `: ${said}`}`;
}
