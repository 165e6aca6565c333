// Prints PHP's configuration folder and all names that PHP knows; no names if the folder configures more than extensions.
echo PHP_CONFIG_FILE_SCAN_DIR, "\n";
foreach (array_filter(array_map('trim', explode(',', (string) php_ini_scanned_files()))) as $file) {
    foreach (file($file) as $line) {
        if (!preg_match('/^\s*(;|$|(zend_)?extension\s*=|opcache\.)/', $line)) {
            exit;
        }
    }
}
$names = array_merge(
    get_defined_functions()['internal'],
    get_declared_classes(),
    get_declared_interfaces(),
    array_keys(get_defined_constants()),
);
echo implode("\n", $names);
