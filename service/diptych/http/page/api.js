// The service: requests, refusals, what /info said last, and pictures as requests name them.

import { choose, collection, within } from "./collections.js";
import { bytes, nameOf } from "./dom.js";

/** A refusal of the service, or its silence (status 0). */
export class Fault extends Error {
  constructor(message, { status = null, code = null, param = null, requestId = null, after = 1 } = {}) {
    super(message);
    Object.assign(this, { status, code, param, requestId, after });
  }

  /** Whether the same request may pass a moment later. */
  get again() {
    return [0, 429, 503, 504].includes(this.status);
  }
}

export async function api(path, options = {}) {
  let response, body;
  try {
    response = await fetch(path, options);
    body = await response.json().catch((error) => {
      if (error.name === "AbortError") throw error;
      return null;
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("The service does not answer. Is it still running?", { status: 0, code: "no_answer" });
  }
  if (response.ok) return body;
  const { message = `The service answered ${response.status}.`, code, param, request_id: requestId } = body?.error ?? {};
  const after = Number(response.headers.get("Retry-After")) || 1;
  throw new Fault(message, { status: response.status, code, param, requestId, after });
}

/** A JSON request, in the chosen collection. */
export function post(path, body, signal) {
  const name = collection();
  const text = JSON.stringify(name === null ? body : { ...body, collection: name });
  checkSize(text.length);
  return api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: text, signal });
}

/** Refuse here what the service would refuse while it arrives: a browser then sees only a broken connection. */
export function checkSize(size) {
  const most = service.info?.limits.body_bytes;
  if (most && size > most) {
    throw new Fault(`This makes a request of ${bytes(size)}; the service takes at most ${bytes(most)}.`, { status: 413 });
  }
}

/* What /info said last */

export const service = { info: null };
const listeners = [];

/** Call `listener` with every new /info. */
export const onInfo = (listener) => listeners.push(listener);

export async function loadInfo(signal) {
  const asked = collection();
  const info = await api(within("/info"), { signal }).catch((error) => {
    // An old address: better another collection, which the header names, than none.
    if (error.code === "unknown_collection" && asked === collection()) choose(null, { replace: true });
    throw error;
  });
  if (asked !== collection()) return service.info; // another was chosen meanwhile, and asked for
  service.info = info;
  for (const listener of listeners) listener(info);
  return info;
}

/* Pictures: a file of the visitor's, or one of the collection */

export const isStored = (picture) => picture.id !== undefined;

export const ofFile = (file) => ({ file, name: file.name || "Pasted picture", source: URL.createObjectURL(file) });

export const ofRecord = (record) => ({
  id: record.id,
  name: nameOf(record),
  source: within(`/v1/images/${record.id}/thumbnail?side=1024`),
});

/** Let go of a picture that nothing shows any more. */
export function release(picture) {
  if (picture?.file) URL.revokeObjectURL(picture.source);
}

/** The picture as a JSON request names it. */
export async function reference(picture) {
  if (isStored(picture)) return { id: picture.id };
  if (picture.file.size === 0) throw new Fault(`${picture.name} is empty.`);
  picture.uri ??= await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Fault(`${picture.name} can no longer be read.`));
    reader.readAsDataURL(picture.file);
  });
  return picture.uri;
}

/** The refusal with the file's name in place of the picture's position in the request. */
export function named(error, names) {
  const position = /^(image|images|queries|documents|the picture)(\[\d+\])?(?=[ :])/.exec(error.message);
  const name = position && (names[position[0]] ?? names[position[1]] ?? names[error.param]);
  if (name) error.message = name + error.message.slice(position[0].length);
  return error;
}
