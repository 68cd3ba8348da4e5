// A worker process that does what its input says: for tests of the pool.
const setups = [];
process.on('disconnect', () => process.exit());
process.on('message', (message) => {
  if (message.kind === 'setup') {
    setups.push(message.setup);
    return;
  }
  if (message.kind === 'ask') {
    process.send({ kind: 'done', answer: { asked: message.question, setups } });
    return;
  }
  const { parts = [], then = 'done' } = message.input;
  if (then === 'unfit' && setups[0].isUnfit) {
    const error = { message: 'no memory', code: 'runtime', hint: 'Use fewer.' };
    process.send({ kind: 'failed', error, isOfSetup: true });
    return;
  }
  for (const key of parts.filter((part) => !message.done.includes(part)))
    process.send({ kind: 'part', part: { key, data: { pid: process.pid }, steps: [], timing: null } });
  process.send({ kind: 'progress', progress: { kind: 'start' } });
  if (then === 'die') process.exit(7);
  else if (then === 'die-once' && message.done.length === 0)
    setImmediate(() => {
      console.error('out of memory');
      process.kill(process.pid, 'SIGKILL');
    });
  else if (then === 'fail')
    process.send({ kind: 'failed', error: { message: 'a bad unit' }, isOfSetup: false });
  else if (then !== 'wait') process.send({ kind: 'done' });
});
