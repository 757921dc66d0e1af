/** Repositories for tests, which know nothing of the settings of whoever runs them. */
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"

export const gitEnvironment: Readonly<Record<string, string>> = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "test",
  GIT_AUTHOR_EMAIL: "test@example.org",
  GIT_COMMITTER_NAME: "test",
  GIT_COMMITTER_EMAIL: "test@example.org"
}

export const git = (repository: string, ...args: ReadonlyArray<string>): string =>
  NodeChildProcess.execFileSync("git", ["-C", repository, ...args], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"], ...gitEnvironment },
    stdio: ["ignore", "pipe", "pipe"]
  })

/** A repository with one commit of one file. */
export const makeRepository = (path: string): string => {
  NFS.mkdirSync(path, { recursive: true })
  git(path, "init", "--quiet")
  NFS.writeFileSync(`${path}/file`, "text\n")
  git(path, "add", "file")
  git(path, "commit", "--quiet", "--message", "first")
  return NFS.realpathSync(path)
}

/** The paths of its worktrees but for its own. */
export const worktrees = (repository: string): ReadonlyArray<string> =>
  git(repository, "worktree", "list", "--porcelain").split("\n").flatMap((line) =>
    line.startsWith("worktree ") && line !== `worktree ${repository}` ? [line.slice("worktree ".length)] : []
  )
