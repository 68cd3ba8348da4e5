/** Tasks in their order, so many of them under way at a time; their results in the same order. */
export async function runAhead<Result>(
  tasks: readonly (() => Promise<Result>)[],
  most: number,
): Promise<Result[]> {
  const running: Promise<Result>[] = [];
  const results: Result[] = [];
  try {
    for (const task of tasks) {
      if (running.length >= most) results.push(await running.shift()!);
      const started = task();
      // It may fail while an earlier one is waited for, and is asked about it later.
      started.catch(() => undefined);
      running.push(started);
    }
    for (const started of running) results.push(await started);
    return results;
  } catch (cause) {
    // Nobody else waits for what is still under way.
    await Promise.allSettled(running);
    throw cause;
  }
}
