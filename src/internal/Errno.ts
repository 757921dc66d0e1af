import * as Data from "effect/Data"

/** A system call that failed, with what people need to mend it: which call, on which path, and the errno name. */
export class Errno extends Data.TaggedError("Errno")<{
  readonly code: string
  readonly call: string
  readonly path: string
  readonly cause: unknown
}> {
  override get message() {
    return `${this.path}: ${words[this.code] ?? "the system refused"} (${this.code} on ${this.call})`
  }
}

const words: Record<string, string> = {
  EACCES: "permission denied",
  EBUSY: "in use",
  EDQUOT: "the disk quota is used up",
  EEXIST: "exists already",
  EIO: "input/output error",
  EISDIR: "is a directory",
  ELOOP: "is a symbolic link",
  EMFILE: "this process has too many open files",
  EMLINK: "is no file with this name alone",
  ENAMETOOLONG: "the name is too long",
  ENFILE: "the system has too many open files",
  ENOENT: "does not exist",
  ENOLCK: "the file system cannot lock",
  ENOSPC: "the disk is full",
  ENOSYS: "not supported here",
  ENOTDIR: "is not a directory",
  ENOTEMPTY: "is not empty",
  ENOTSUP: "not supported here",
  EOPNOTSUPP: "not supported here",
  EPERM: "not permitted",
  EROFS: "the file system is read-only",
  ETIMEDOUT: "the system did not answer in time",
  EXDEV: "lies on another file system"
}

/** @internal */
export const fromUnknown = (call: string, path: string, cause: unknown): Errno => {
  const code = typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "EUNKNOWN"
  return new Errno({ code, call, path, cause })
}
