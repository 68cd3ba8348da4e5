/** Failures that the operating system reports and nobody foresaw: a missing right, a full disk, a path that cannot be. */
export interface SystemFailure {
  readonly sentence: string;
  readonly hint: string;
  /** The machine has failed, not what it was given. */
  readonly isOfMachine: boolean;
}

const checkPath = 'Check the path.';
const hints: Readonly<Record<string, string>> = {
  ENOENT: checkPath,
  ENOTDIR: 'A part of the path is a file, where a folder was expected: check it.',
  EISDIR: 'It is a folder, where a file was expected: check the path.',
  ELOOP: 'Its links lead in a circle: check the path.',
  ENAMETOOLONG: 'Use a shorter path.',
  EEXIST: 'Remove it, or use another path.',
  EACCES: 'Give yourself the right to read and write it, or use another path.',
  EPERM: 'Give yourself the right to read and write it, or use another path.',
  EROFS: 'Use a path on a disk that can be written.',
};
const machineHints: Readonly<Record<string, string>> = {
  ENOSPC: 'Make room on the disk.',
  EDQUOT: 'Make room in your quota.',
  EMFILE: 'Close what else is running, or raise the limit of open files (ulimit -n).',
  ENFILE: 'Close what else is running: the machine has no more open files to give.',
  ENOMEM: 'Close what else is running, or use a machine with more memory.',
  EAGAIN: 'Close what else is running: the machine has no more processes to give.',
  EIO: 'Check the disk, or the connection to it.',
};

/** Undefined for what the operating system did not say. */
export function describeSystemFailure(failure: unknown): SystemFailure | undefined {
  if (!(failure instanceof Error) || !('syscall' in failure)) return undefined;
  const { code = '', syscall = '', path, message } = failure as NodeJS.ErrnoException;
  if (!/^E[A-Z0-9]+$/.test(code)) return undefined;
  // "EACCES: permission denied, open '/a/file'"
  const [, words = message] = /^\w+: (.*?), /s.exec(message) ?? [];
  const machineHint = machineHints[code];
  return {
    sentence:
      path === undefined
        ? `The operating system refused to ${syscall}: ${words} (${code}).`
        : `${path} cannot be used: ${words} (${code}, ${syscall}).`,
    hint: machineHint ?? hints[code] ?? checkPath,
    isOfMachine: machineHint !== undefined,
  };
}
