/**
 * Whether a tokenizer.json consists of parts that published tokenizers of the supported families have, with settings that
 * cannot make the Rust library panic, which would end this process, or run for ever. Anything else may be honest and is
 * still a stranger's program: it is tried, and encodes, in a process of its own (guarded-encoder.ts).
 */

type Part = Readonly<Record<string, unknown>>;

/** The splits of Llama 3, Qwen2 and later, and GPT-2. */
const publishedPatterns = new Set([
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
]);

const longestReplacement = 4;
const mostParts = 8;

/** What is unusual, in words; empty where nothing is. */
export function findUnusualParts(contents: Readonly<Record<string, unknown>>): readonly string[] {
  const { model, normalizer, pre_tokenizer: splitter, post_processor: wrapper, decoder } = contents;
  return [
    ...(isRecord(model) && isUsualModel(model) ? [] : ['model']),
    ...findUnusual('normalizer', normalizer, 'normalizers', isUsualNormalizer),
    ...findUnusual('pre_tokenizer', splitter, 'pretokenizers', isUsualSplitter),
    ...findUnusual('post_processor', wrapper, 'processors', (part) => isUsualWrapper(part, contents)),
    ...findUnusual('decoder', decoder, 'decoders', isUsualDecoder),
    ...(contents.truncation == null && contents.padding == null ? [] : ['truncation or padding']),
  ];
}

/** A decoder runs in this process, at every token: it has to be a usual one. */
export function hasUsualDecoder(contents: Readonly<Record<string, unknown>>): boolean {
  return findUnusual('decoder', contents.decoder, 'decoders', isUsualDecoder).length === 0;
}

function findUnusual(
  name: string,
  part: unknown,
  listKey: string,
  isUsual: (part: Part) => boolean,
): readonly string[] {
  if (part === undefined || part === null) return [];
  if (!isRecord(part)) return [name];
  const list = part.type === 'Sequence' ? part[listKey] : [part];
  if (!Array.isArray(list) || list.length > mostParts) return [name];
  const unusual = list.filter((each) => !isRecord(each) || !isUsual(each));
  return unusual.map((each) => `${name} ${isRecord(each) ? String(each.type).slice(0, 40) : ''}`.trim());
}

function isUsualModel({
  type,
  dropout,
  continuing_subword_prefix: prefix,
  end_of_word_suffix: suffix,
  vocab,
  merges,
}: Part): boolean {
  const isPlain = dropout == null && (prefix == null || prefix === '') && (suffix == null || suffix === '');
  return (type === 'BPE' || type === undefined) && isPlain && hasUsualMerges(vocab, merges);
}

/** The library panics at a merge whose result is longer than every piece, which it is only where it is none of them. */
function hasUsualMerges(vocab: unknown, merges: unknown): boolean {
  if (!isRecord(vocab) || !Array.isArray(merges)) return false;
  return merges.every((merge: unknown) => {
    const [left, right, ...more] =
      typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? (merge as unknown[]) : [];
    if (typeof left !== 'string' || typeof right !== 'string' || more.length > 0) return false;
    return Object.hasOwn(vocab, left + right);
  });
}

function isUsualNormalizer(part: Part): boolean {
  switch (part.type) {
    case 'NFC':
    case 'NFKC':
    case 'NFD':
    case 'NFKD':
    case 'Lowercase':
      return true;
    case 'Prepend':
      return isShort(part.prepend);
    case 'Replace':
      return isPlainReplacement(part);
    default:
      return false;
  }
}

function isUsualSplitter(part: Part): boolean {
  switch (part.type) {
    case 'ByteLevel':
    case 'Digits':
    case 'Whitespace':
    case 'WhitespaceSplit':
      return true;
    case 'Metaspace':
      return isShort(part.replacement);
    case 'Split':
      return isRecord(part.pattern) && isUsualPattern(part.pattern);
    default:
      return false;
  }
}

function isUsualPattern({ Regex: regex, String: text }: Part): boolean {
  if (typeof text === 'string') return text.length > 0;
  if (typeof regex !== 'string' || regex.length > 400) return false;
  return publishedPatterns.has(regex) || isLinear(regex);
}

/**
 * No group is repeated, nothing looks around or back, and each alternative has one open-ended repetition at most: there is
 * nothing to try again.
 */
function isLinear(regex: string): boolean {
  const flat = regex.replace(/\\[dDsSwWnrt\\]|\\p\{\w+\}/g, 'c').replace(/\[[^[\]]*\]/g, 'c');
  if (/[\\()[\]]/.test(flat)) return false;
  return flat.split('|').every((choice) => (choice.match(/[*+{]/g) ?? []).length <= 1);
}

/** Every special token that it inserts has to be declared: the library panics at one that is not. */
function isUsualWrapper(part: Part, { added_tokens: added }: Part): boolean {
  if (part.type === 'ByteLevel') return true;
  if (part.type !== 'TemplateProcessing') return false;
  const declared = isRecord(part.special_tokens) ? part.special_tokens : {};
  const known = new Set(
    Array.isArray(added) ? added.map((token) => (isRecord(token) ? token.content : '')) : [],
  );
  const pieces = [part.single, part.pair].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  return pieces.every((piece) => {
    if (!isRecord(piece)) return false;
    if (isRecord(piece.Sequence)) return true;
    const id = isRecord(piece.SpecialToken) ? String(piece.SpecialToken.id) : '';
    const entry = Object.hasOwn(declared, id) ? declared[id] : undefined;
    return isRecord(entry) && Array.isArray(entry.ids) && entry.ids.length === 1 && known.has(id);
  });
}

function isUsualDecoder(part: Part): boolean {
  switch (part.type) {
    case 'ByteLevel':
    case 'ByteFallback':
    case 'Fuse':
      return true;
    case 'Metaspace':
      return isShort(part.replacement);
    case 'Replace':
      return isPlainReplacement(part);
    case 'Strip':
      return part.content === ' ' && part.start === 1 && part.stop === 0;
    default:
      return false;
  }
}

/** A chain of replacements by longer texts grows without end. */
function isPlainReplacement({ pattern, content }: Part): boolean {
  const isText = isRecord(pattern) && typeof pattern.String === 'string' && pattern.String !== '';
  return isText && typeof content === 'string' && Array.from(content).length <= 1;
}

function isShort(value: unknown): boolean {
  return typeof value === 'string' && Array.from(value).length <= longestReplacement;
}

function isRecord(value: unknown): value is Part {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
