/** The tables by which questions are reworded. What stands in one row can take each other's place in most English sentences. */

/** Before a question of any kind. */
export const openings: readonly string[] = [
  ...[
    'Hello! ',
    'Hi, ',
    'Good morning. ',
    'I have a question. ',
    'Here is my question: ',
    'Quick question: ',
  ],
  ...[
    'Please help me with this: ',
    'I need your help. ',
    'Please answer the following. ',
    'One more thing: ',
  ],
  ...[
    'Here is what I would like to know: ',
    'Can you help me with this? ',
    'I was asked this: ',
    'Next one: ',
  ],
];

/** Before a sentence that begins with a command; the last ones make a question of it. */
export const requests: readonly string[] = [
  ...['Please ', 'I would like you to ', 'I want you to ', 'Now ', 'Your task is to '],
  ...['Could you ', 'Can you please ', 'Would you '],
];

export const closings: readonly string[] = [
  ...[' Thank you.', ' Thanks!', ' Thanks in advance.', ' Thank you for your help.', ' Please let me know.'],
  ...[' I appreciate your help.', ' That is all.'],
];

/** The verbs with which requests begin. */
export const commands: readonly string[] = [
  ...['write', 'create', 'make', 'build', 'find', 'determine', 'show', 'explain', 'describe', 'calculate'],
  ...['compute', 'give', 'list', 'name', 'implement', 'complete', 'solve', 'compose', 'develop', 'design'],
  ...['generate', 'provide', 'translate', 'summarize', 'rewrite', 'suggest', 'imagine', 'tell', 'compare'],
  ...['convert', 'draw', 'edit', 'classify', 'identify', 'discuss', 'draft', 'evaluate', 'fix', 'construct'],
  ...['call', 'use', 'return', 'add', 'answer', 'consider', 'simplify', 'prove', 'analyze', 'define'],
];

/** [whole words, contracted] */
export const contractions: readonly (readonly [string, string])[] = [
  ...([
    ['what is', "what's"],
    ['it is', "it's"],
    ['that is', "that's"],
    ['there is', "there's"],
    ['who is', "who's"],
    ['where is', "where's"],
    ['do not', "don't"],
    ['does not', "doesn't"],
    ['did not', "didn't"],
    ['is not', "isn't"],
    ['are not', "aren't"],
    ['was not', "wasn't"],
    ['cannot', "can't"],
    ['will not', "won't"],
    ['would not', "wouldn't"],
    ['could not', "couldn't"],
    ['should not', "shouldn't"],
    ['I am', "I'm"],
    ['I will', "I'll"],
    ['you are', "you're"],
    ['they are', "they're"],
    ['we are', "we're"],
  ] as const),
];

/** Words of the same kind and ending, so that the sentence around them stays whole. */
export const synonyms: readonly (readonly string[])[] = [
  ['create', 'make', 'build'],
  ['creates', 'makes', 'builds'],
  ['find', 'determine', 'figure out'],
  ['finds', 'determines', 'figures out'],
  ['calculate', 'compute', 'work out'],
  ['calculates', 'computes', 'works out'],
  ['explain', 'describe'],
  ['explains', 'describes'],
  ['show', 'display'],
  ['shows', 'displays'],
  ['choose', 'pick', 'select'],
  ['discuss', 'talk about'],
  ['begins', 'starts'],
  ['buy', 'purchase'],
  ['buys', 'purchases'],
  ['bought', 'purchased'],
  ['needs', 'requires'],
  ['needed', 'required'],
  ['wants to', 'would like to'],
  ['contains', 'holds'],
  ['suppose', 'assume', 'imagine'],
  ['using', 'by means of', 'with the help of'],
  ['in order to', 'so as to'],
  ['for instance', 'for example'],
  ['big', 'large'],
  ['important', 'essential', 'crucial'],
  ['difficult', 'challenging'],
  ['easy', 'simple'],
  ['quick', 'fast'],
  ['maximum', 'largest'],
  ['minimum', 'smallest'],
  ['whole', 'entire'],
  ['usual', 'normal'],
  ['kids', 'children'],
  ['people', 'persons'],
  ['difference', 'distinction'],
  ['differences', 'distinctions'],
  ['per day', 'each day'],
  ['per week', 'each week'],
  ['in total', 'altogether', 'in all'],
];
