declare module "fs-native-extensions" {
  interface LockOptions {
    readonly shared?: boolean
  }
  export const tryLock: (fd: number, options?: LockOptions) => boolean
  export const tryDowngradeLock: (fd: number) => boolean
  export const unlock: (fd: number) => void
}
