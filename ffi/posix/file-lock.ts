// Advisory locks on open files (flock), which the kernel drops when their holder dies, however it dies.
//
// A lock belongs to the open file description: closing the descriptor releases it too. Used where two processes may write
// the same cache entry or extract the same plugin.

import { ERRNO, errno, libc, posixError } from "./libc.ts";

const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;

/** Waits, blocking this thread, until the file open as `fd` is locked by us alone; disposing the result unlocks it. */
export function lockFile(fd: number): Disposable {
  if (libc.flock(fd, LOCK_EX) !== 0) throw posixError(`locking file descriptor ${fd}`, errno());
  return unlocker(fd);
}

/** As `lockFile`, but undefined at once when someone else holds the lock. */
export function tryLockFile(fd: number): Disposable | undefined {
  if (libc.flock(fd, LOCK_EX | LOCK_NB) === 0) return unlocker(fd);
  const number = errno();
  if (number === ERRNO.EAGAIN) return undefined;
  throw posixError(`locking file descriptor ${fd}`, number);
}

function unlocker(fd: number): Disposable {
  return { [Symbol.dispose]: () => void libc.flock(fd, LOCK_UN) };
}
