/** Starts tasks in order, at most `limit` at a time, and returns their results in the same order. */
export async function runWithLimit<Result>(
  tasks: readonly (() => Promise<Result>)[],
  limit: number,
): Promise<Result[]> {
  const running: Promise<Result>[] = [];
  const results: Result[] = [];
  try {
    for (const task of tasks) {
      if (running.length >= limit) results.push(await running.shift()!);
      const started = task();
      // It may fail while an earlier one is awaited; the error is thrown when its own turn comes.
      started.catch(() => undefined);
      running.push(started);
    }
    for (const started of running) results.push(await started);
    return results;
  } catch (cause) {
    // No task may outlive this call.
    await Promise.allSettled(running);
    throw cause;
  }
}
