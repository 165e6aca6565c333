/** The mark: a glass bell with a prompt under it. */
export function Bell({ size = 20 }: { size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 32 32"
      fill="none"
      stroke="currentColor"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d="M6 25.5V17a10 10 0 0 1 20 0v8.5" fill="currentColor" fillOpacity="0.1" strokeWidth="1.8" />
      <circle cx="16" cy="4.4" r="2" strokeWidth="1.8" />
      <path d="M3.5 28h25" strokeWidth="2.2" />
      <path d="M12 16.8l3 2.8-3 2.8M17.400 22.600h3.400" strokeWidth="1.9" />
      <path d="M10.200 15.500c.4-1.900 1.500-3.300 3-4" strokeWidth="1.300" strokeOpacity="0.6" />
    </svg>
  );
}

export function Wordmark() {
  return (
    <span className="flex items-center gap-2 text-accent">
      <Bell size={22} />
      <span className="font-display text-[1.35rem] leading-none tracking-tight text-ink">Cloche</span>
    </span>
  );
}
