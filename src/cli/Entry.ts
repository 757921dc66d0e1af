/** The one file that has no hash in its name, by which the first file knows it. What is in it is compiled every time. */
export const start = async (): Promise<void> => (await import("./Start.ts")).start()
