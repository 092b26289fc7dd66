// What the page shows: facts as JSON, and arrays packed as base64 of deflated bytes (see explore/pack.py).

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

export const facts = () => JSON.parse(document.getElementById("facts").textContent);

/** The arrays of one part by name; the part leaves the document, so its text can be freed. */
export async function part(name) {
  const holder = document.getElementById(`part-${name}`);
  const packed = decoded(holder.textContent);
  holder.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const start = (4 + length + 7) & ~7;
  return Object.fromEntries(
    header.map(([key, kind, at, count]) => [key, new KINDS[kind](buffer, start + at, count)]),
  );
}

function decoded(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Where each run of an array begins, from how long each is.  (n,) -> (n + 1,) */
export function starts(lengths) {
  const out = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) out[i + 1] = out[i] + lengths[i];
  return out;
}
